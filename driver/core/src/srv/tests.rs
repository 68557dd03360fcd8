//! Which hosts are believed, which are chosen, and what a later answer changes.

use std::collections::BTreeSet;

use super::*;

fn record(host: &str, port: u16, ttl: u64) -> SrvRecord {
    SrvRecord { host: host.to_owned(), port, ttl: Duration::from_secs(ttl) }
}

fn name(host: &str) -> SrvName {
    SrvName::new(host, None, None).unwrap()
}

fn believes(name: &SrvName, host: &str) -> bool {
    name.verify(&record(host, 1, 0)).is_ok()
}

#[test]
fn hosts_outside_of_the_parent_domain_are_not_believed() {
    // pitfall 46
    for (srv, host) in [
        ("localhost", "localhost.mongodb"),
        ("mongo.local", "test_1.evil.local"),
        ("blogs.mongodb.com", "blogs.evil.com"),
        ("localhost", "test_1.cluster_1localhost"),
        ("mongo.local", "test_1.my_hostmongo.local"),
        ("blogs.mongodb.com", "cluster.testmongodb.com"),
        ("blogs.mongodb.com", "mongodb.com"),
        ("blogs.mongodb.com", ".mongodb.com"),
        ("blogs.mongodb.com", ""),
        ("blogs.mongodb.com", "."),
        ("a.b.mongodb.com", "x.mongodb.com"),
    ] {
        let error = name(srv).verify(&record(host, 1, 0)).unwrap_err();
        assert!(matches!(error, SrvError::OutsideDomain { .. }), "{srv} {host}");
    }
}

#[test]
fn a_short_name_needs_one_more_part_in_its_hosts() {
    // pitfall 46: with fewer than three parts, the whole name is the domain.
    assert!(!believes(&name("localhost"), "localhost"));
    assert!(!believes(&name("mongo.local"), "mongo.local"));
    assert!(believes(&name("localhost"), "db.localhost"));
    assert!(believes(&name("mongo.local"), "db.mongo.local"));
}

#[test]
fn hosts_in_the_domain_are_believed_however_they_are_written() {
    for host in ["db.mongodb.com", "DB.MongoDB.com.", "a.b.mongodb.com", "blogs.mongodb.com"] {
        assert!(believes(&name("Blogs.mongodb.com."), host), "{host}");
    }
    let shown = name("blogs.mongodb.com").verify(&record("DB.mongodb.com.", 7, 0)).unwrap();
    assert_eq!(shown.to_string(), "db.mongodb.com:7");
}

#[test]
fn a_host_that_is_no_address_is_refused() {
    let name = name("blogs.mongodb.com");
    for (host, port) in [("db.mongodb.com", 0), ("d b.mongodb.com", 1), ("a:1.mongodb.com", 1)] {
        let error = name.verify(&record(host, port, 0)).unwrap_err();
        assert!(matches!(error, SrvError::InvalidHost(_)), "{host}");
    }
}

#[test]
fn an_allowed_suffix_replaces_the_domain_but_cannot_be_everybodys() {
    let name = |suffix| SrvName::new("a.example.com", None, Some(suffix));
    for suffix in [".other.net", "other.net", "OTHER.net."] {
        let name = name(suffix).unwrap();
        assert!(believes(&name, "db.other.net") && !believes(&name, "db.example.com"));
        assert!(!believes(&name, "db.another.net") && !believes(&name, "other.net"));
    }
    for suffix in ["", ".", "..", "com", ".COM", "a..b", "a b.c", "a/b.c"] {
        assert_eq!(name(suffix).unwrap_err(), SrvError::InvalidSuffix, "{suffix}");
    }
    assert!(believes(&name("localhost").unwrap(), "db.localhost"));
}

#[test]
fn service_names_follow_the_standard() {
    for service in ["mongodb", "a", "custom-name", "1a"] {
        let name = SrvName::new("h", Some(service), None).unwrap();
        assert_eq!(name.query(), format!("_{service}._tcp.h"));
    }
    let long = "a".repeat(63);
    for service in ["", "1", "-a", "a-", "a--b", "a.b", "a_b", "ä", long.as_str()] {
        assert_eq!(service_name(service), Err(SrvError::InvalidService), "{service}");
    }
}

#[test]
fn the_strings_of_a_txt_record_are_one() {
    let strings = ["replicaS", "et=r", "s"].map(|text| text.as_bytes().to_vec()).to_vec();
    let answer = SrvAnswer { hosts: Vec::new(), txt: vec![TxtRecord { strings }] };
    assert_eq!(answer.txt_options().unwrap(), [("replicaset".to_owned(), "rs".to_owned())]);
}

#[test]
fn the_limit_is_kept_and_every_host_can_be_chosen() {
    let hosts = || vec!['a', 'b', 'c', 'd'];
    assert_eq!(choose(hosts(), 0, |_| 0), hosts());
    assert_eq!(choose(hosts(), 4, |_| panic!("nothing to choose")), hosts());
    let mut chosen = BTreeSet::new();
    for first in 0..4 {
        for second in 0..3 {
            let mut numbers = [first, second].into_iter();
            let pair = choose(hosts(), 2, |_| numbers.next().unwrap());
            assert_eq!(pair.len(), 2);
            assert_ne!(pair[0], pair[1]);
            chosen.insert((pair[0], pair[1]));
        }
    }
    assert_eq!(chosen.len(), 12);
    // A number that is out of range does no harm.
    assert_eq!(choose(hosts(), 2, |_| usize::MAX / 2).len(), 2);
}

fn records(hosts: &[&str], ttl: u64) -> Vec<SrvRecord> {
    hosts.iter().map(|host| record(&format!("{host}.example.com."), 1, ttl)).collect()
}

#[test]
fn a_later_answer_is_good_for_its_shortest_ttl() {
    let mut answer = records(&["a"], 500);
    answer.extend(records(&["b"], 90));
    let renewal = name("srv.example.com").renew(&answer, |_| 0);
    assert_eq!(renewal.lowest_ttl, Some(Duration::from_secs(90)));
    assert_eq!(renewal.hosts.len(), 2);
}

#[test]
fn a_later_answer_without_believable_hosts_changes_nothing() {
    for answer in [Vec::new(), vec![record("db.evil.com", 1, 300)]] {
        let renewal = name("srv.example.com").renew(&answer, |_| 0);
        assert!(renewal.hosts.is_empty() && renewal.lowest_ttl.is_none());
        assert!(!renewal.warnings.is_empty());
    }
}

#[test]
fn a_host_outside_of_the_domain_spoils_no_other_in_a_later_answer() {
    // pitfall 46
    let mut answer = records(&["a"], 300);
    answer.push(record("db.evil.com", 1, 300));
    let renewal = name("srv.example.com").renew(&answer, |_| 0);
    assert_eq!(renewal.hosts, [ServerAddress::parse("a.example.com:1").unwrap()]);
    assert_eq!(renewal.warnings.len(), 1);
}
