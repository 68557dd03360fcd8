//! Queries with records of the test.

use std::{future, sync::Mutex};

use super::*;

/// Records of one deployment, or no response.
#[derive(Debug, Default)]
struct TestRecords {
    hosts: Vec<SrvRecord>,
    txt: Vec<TxtRecord>,
    silent_for_txt: bool,
    queried: Mutex<Vec<String>>,
}

impl Records for TestRecords {
    fn srv<'a>(&'a self, name: &'a str) -> QueryFuture<'a, SrvRecord> {
        self.queried.lock().unwrap().push(format!("SRV {name}"));
        Box::pin(future::ready(Ok(self.hosts.clone())))
    }

    fn txt<'a>(&'a self, name: &'a str) -> QueryFuture<'a, TxtRecord> {
        self.queried.lock().unwrap().push(format!("TXT {name}"));
        match self.silent_for_txt {
            true => Box::pin(future::pending()),
            false => Box::pin(future::ready(Ok(self.txt.clone()))),
        }
    }
}

fn test_records() -> TestRecords {
    let ttl = Duration::from_secs(60);
    let host = SrvRecord { host: "a.example.com".to_owned(), port: 27017, ttl };
    let txt = TxtRecord { strings: vec![b"authSource=users".to_vec()] };
    TestRecords { hosts: vec![host], txt: vec![txt], ..TestRecords::default() }
}

fn name() -> SrvName {
    SrvName::new("cluster.example.com", None, None).unwrap()
}

const SECOND: Duration = Duration::from_secs(1);

fn resolver(records: &Arc<TestRecords>) -> Resolver {
    Resolver::new(records.clone(), SECOND)
}

#[tokio::test]
async fn hosts_and_options_are_queried() {
    let records = Arc::new(test_records());
    let answer = resolver(&records).query(&name()).await.unwrap();
    assert_eq!(answer, SrvAnswer { hosts: records.hosts.clone(), txt: records.txt.clone() });
    let queried = records.queried.lock().unwrap();
    assert_eq!(*queried, ["SRV _mongodb._tcp.cluster.example.com", "TXT cluster.example.com"]);
}

#[tokio::test]
async fn polling_queries_hosts_only() {
    let records = Arc::new(test_records());
    assert_eq!(resolver(&records).hosts(&name()).await.unwrap(), records.hosts);
    assert_eq!(records.queried.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn txt_records_are_not_queried_without_srv_records() {
    let records = Arc::new(TestRecords::default());
    let answer = resolver(&records).query(&name()).await.unwrap();
    assert_eq!(answer, SrvAnswer::default());
    assert_eq!(records.queried.lock().unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn lookup_without_a_response_times_out() {
    let records = Arc::new(TestRecords { silent_for_txt: true, ..test_records() });
    let error = resolver(&records).query(&name()).await.unwrap_err();
    assert_eq!(error.to_string(), "no DNS response for cluster.example.com within 1s");
}
