//! Verification and selection of hosts, and polling of SRV records.

use std::collections::BTreeSet;

use super::*;

fn record(host: &str, port: u16, ttl: u64) -> SrvRecord {
    SrvRecord { host: host.to_owned(), port, ttl: Duration::from_secs(ttl) }
}

fn name(host: &str) -> SrvName {
    SrvName::new(host, None, None).unwrap()
}

fn accepts(name: &SrvName, host: &str) -> bool {
    name.verify(&record(host, 1, 0)).is_ok()
}

#[test]
fn srv_hosts_outside_the_parent_domain_are_rejected() {
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
fn hosts_of_a_short_srv_name_need_an_additional_label() {
    // pitfall 46: with fewer than three labels, the whole name is the domain.
    assert!(!accepts(&name("localhost"), "localhost"));
    assert!(!accepts(&name("mongo.local"), "mongo.local"));
    assert!(accepts(&name("localhost"), "db.localhost"));
    assert!(accepts(&name("mongo.local"), "db.mongo.local"));
}

#[test]
fn srv_hosts_in_the_domain_are_accepted_in_any_spelling() {
    for host in ["db.mongodb.com", "DB.MongoDB.com.", "a.b.mongodb.com", "blogs.mongodb.com"] {
        assert!(accepts(&name("Blogs.mongodb.com."), host), "{host}");
    }
    let shown = name("blogs.mongodb.com").verify(&record("DB.mongodb.com.", 7, 0)).unwrap();
    assert_eq!(shown.to_string(), "db.mongodb.com:7");
}

#[test]
fn srv_host_that_is_no_address_is_rejected() {
    let name = name("blogs.mongodb.com");
    for (host, port) in [("db.mongodb.com", 0), ("d b.mongodb.com", 1), ("a:1.mongodb.com", 1)] {
        let error = name.verify(&record(host, port, 0)).unwrap_err();
        assert!(matches!(error, SrvError::InvalidHost(_)), "{host}");
    }
}

#[test]
fn srv_allowed_hosts_suffix_replaces_the_domain() {
    let name = |suffix| SrvName::new("a.example.com", None, Some(suffix));
    for suffix in [".other.net", "other.net", "OTHER.net."] {
        let name = name(suffix).unwrap();
        assert!(accepts(&name, "db.other.net") && !accepts(&name, "db.example.com"));
        assert!(!accepts(&name, "db.another.net") && !accepts(&name, "other.net"));
    }
    for suffix in ["", ".", "..", "com", ".COM", "a..b", "a b.c", "a/b.c"] {
        assert_eq!(name(suffix).unwrap_err(), SrvError::InvalidSuffix, "{suffix}");
    }
    assert!(accepts(&name("localhost").unwrap(), "db.localhost"));
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
fn txt_record_strings_are_concatenated() {
    let strings = ["replicaS", "et=r", "s"].map(|text| text.as_bytes().to_vec()).to_vec();
    let answer = SrvAnswer { hosts: Vec::new(), txt: vec![TxtRecord { strings }] };
    assert_eq!(answer.txt_options().unwrap(), [("replicaset".to_owned(), "rs".to_owned())]);
}

#[test]
fn srv_max_hosts_selects_random_hosts() {
    let hosts = || vec!['a', 'b', 'c', 'd'];
    assert_eq!(limit_hosts(hosts(), 0, |_| 0), hosts());
    assert_eq!(limit_hosts(hosts(), 4, |_| panic!("nothing to limit_hosts")), hosts());
    let mut chosen = BTreeSet::new();
    for first in 0..4 {
        for second in 0..3 {
            let mut numbers = [first, second].into_iter();
            let pair = limit_hosts(hosts(), 2, |_| numbers.next().unwrap());
            assert_eq!(pair.len(), 2);
            assert_ne!(pair[0], pair[1]);
            chosen.insert((pair[0], pair[1]));
        }
    }
    assert_eq!(chosen.len(), 12);
    // A number out of range has no effect.
    assert_eq!(limit_hosts(hosts(), 2, |_| usize::MAX / 2).len(), 2);
}

fn records(hosts: &[&str], ttl: u64) -> Vec<SrvRecord> {
    hosts.iter().map(|host| record(&format!("{host}.example.com."), 1, ttl)).collect()
}

#[test]
fn srv_poll_uses_the_lowest_ttl() {
    let mut answer = records(&["a"], 500);
    answer.extend(records(&["b"], 90));
    let poll = name("srv.example.com").verify_poll(&answer, |_| 0);
    assert_eq!(poll.lowest_ttl, Some(Duration::from_secs(90)));
    assert_eq!(poll.hosts.len(), 2);
}

#[test]
fn srv_poll_without_valid_hosts_is_ignored() {
    for answer in [Vec::new(), vec![record("db.evil.com", 1, 300)]] {
        let poll = name("srv.example.com").verify_poll(&answer, |_| 0);
        assert!(poll.hosts.is_empty() && poll.lowest_ttl.is_none());
        assert!(!poll.warnings.is_empty());
    }
}

#[test]
fn srv_poll_skips_hosts_outside_the_domain() {
    // pitfall 46
    let mut answer = records(&["a"], 300);
    answer.push(record("db.evil.com", 1, 300));
    let poll = name("srv.example.com").verify_poll(&answer, |_| 0);
    assert_eq!(poll.hosts, [ServerAddress::parse("a.example.com:1").unwrap()]);
    assert_eq!(poll.warnings.len(), 1);
}
