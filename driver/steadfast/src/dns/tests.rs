//! Look-ups with records made up for the test.

use std::{future, sync::Mutex};

use super::*;

/// Knows one deployment, or never answers.
#[derive(Debug, Default)]
struct MadeUp {
    hosts: Vec<SrvRecord>,
    txt: Vec<TxtRecord>,
    silent_for_txt: bool,
    asked: Mutex<Vec<String>>,
}

impl Records for MadeUp {
    fn srv<'a>(&'a self, name: &'a str) -> Answer<'a, SrvRecord> {
        self.asked.lock().unwrap().push(format!("SRV {name}"));
        Box::pin(future::ready(Ok(self.hosts.clone())))
    }

    fn txt<'a>(&'a self, name: &'a str) -> Answer<'a, TxtRecord> {
        self.asked.lock().unwrap().push(format!("TXT {name}"));
        match self.silent_for_txt {
            true => Box::pin(future::pending()),
            false => Box::pin(future::ready(Ok(self.txt.clone()))),
        }
    }
}

fn made_up() -> MadeUp {
    let ttl = Duration::from_secs(60);
    let host = SrvRecord { host: "a.example.com".to_owned(), port: 27017, ttl };
    let txt = TxtRecord { strings: vec![b"authSource=users".to_vec()] };
    MadeUp { hosts: vec![host], txt: vec![txt], ..MadeUp::default() }
}

fn name() -> SrvName {
    SrvName::new("cluster.example.com", None, None).unwrap()
}

const SECOND: Duration = Duration::from_secs(1);

fn resolver(records: &Arc<MadeUp>) -> Resolver {
    Resolver::new(records.clone(), SECOND)
}

#[tokio::test]
async fn hosts_and_options_are_asked_for() {
    let records = Arc::new(made_up());
    let answer = resolver(&records).answer(&name()).await.unwrap();
    assert_eq!(answer, SrvAnswer { hosts: records.hosts.clone(), txt: records.txt.clone() });
    let asked = records.asked.lock().unwrap();
    assert_eq!(*asked, ["SRV _mongodb._tcp.cluster.example.com", "TXT cluster.example.com"]);
}

#[tokio::test]
async fn polling_asks_for_hosts_alone() {
    let records = Arc::new(made_up());
    assert_eq!(resolver(&records).hosts(&name()).await.unwrap(), records.hosts);
    assert_eq!(records.asked.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn without_hosts_there_are_no_options() {
    let records = Arc::new(MadeUp::default());
    let answer = resolver(&records).answer(&name()).await.unwrap();
    assert_eq!(answer, SrvAnswer::default());
    assert_eq!(records.asked.lock().unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_resolver_that_never_answers_is_given_up_in_time() {
    let records = Arc::new(MadeUp { silent_for_txt: true, ..made_up() });
    let error = resolver(&records).answer(&name()).await.unwrap_err();
    assert_eq!(error.to_string(), "DNS did not answer for cluster.example.com within 1s");
}
