//! Writers, transactions, chunk migrations and step-downs at the same time. Each write is executed
//! once.

use std::time::Duration;

use bson::{Document, Uuid, doc};
use tokio::time::sleep;

use super::cluster::{TestCluster, V8_0, batch, message, zoned};

const WRITERS: u8 = 4;
const WRITES: i64 = 40;

/// A session of an application that retries each write until it has the outcome.
struct Client<'a> {
    it: &'a TestCluster,
    lsid: Document,
    number: i64,
}

impl Client<'_> {
    async fn write(&mut self, mut body: Document) -> Document {
        self.number += 1;
        body.extend(doc! { "lsid": self.lsid.clone(), "txnNumber": self.number });
        loop {
            let reply = self.it.run(body.clone()).await;
            if reply.get_f64("ok").unwrap() == 1.0 && !reply.contains_key("writeErrors") {
                return reply;
            }
            assert!(is_labelled(&reply, "RetryableWriteError"), "{body}: {reply}");
            sleep(Duration::from_millis(7)).await;
        }
    }

    /// Transfers one unit from the account in one datacenter to that in the other.
    async fn transfer(&mut self, user: i32) {
        'again: loop {
            self.number += 1;
            for (step, (datacenter, amount)) in [("alfa", -1), ("bravo", 1)].into_iter().enumerate()
            {
                let q = doc! { "datacenter": datacenter, "userid": user };
                let u = doc! { "$inc": { "balance": amount } };
                let mut body = doc! { "update": "messages", "updates": [{ "q": q, "u": u }] };
                if step == 0 {
                    body.insert("startTransaction", true);
                }
                let reply = self.it.run(self.part(body)).await;
                if reply.get_f64("ok").unwrap() != 1.0 {
                    assert!(is_labelled(&reply, "TransientTransactionError"), "{reply}");
                    sleep(Duration::from_millis(7)).await;
                    continue 'again;
                }
            }
            loop {
                let commit = self.part(doc! { "commitTransaction": 1 });
                let reply = self.it.run_on(&self.it.mongos, "admin", commit).await;
                if reply.get_f64("ok").unwrap() == 1.0 {
                    return;
                }
                if is_labelled(&reply, "TransientTransactionError") {
                    continue 'again;
                }
                assert!(is_labelled(&reply, "RetryableWriteError"), "{reply}");
                sleep(Duration::from_millis(7)).await;
            }
        }
    }

    fn part(&self, mut body: Document) -> Document {
        body.extend(doc! {
            "lsid": self.lsid.clone(), "txnNumber": self.number, "autocommit": false,
        });
        body
    }
}

fn is_labelled(reply: &Document, label: &str) -> bool {
    reply.get_array("errorLabels").is_ok_and(|labels| labels.contains(&label.into()))
}

fn client(it: &TestCluster, id: u8) -> Client<'_> {
    Client { it, lsid: doc! { "id": Uuid::from_bytes([id; 16]) }, number: 0 }
}

async fn count_up(it: &TestCluster, id: u8) {
    let mut client = client(it, 10 + id);
    for turn in 0..WRITES {
        let datacenter = if id.is_multiple_of(2) { "alfa" } else { "bravo" };
        // Once with the shard key, once without.
        let q = match turn % 2 {
            0 => doc! { "datacenter": datacenter, "userid": i32::from(id) },
            _ => doc! { "message_id": i32::from(id) },
        };
        let u = doc! { "$inc": { "count": 1 } };
        let reply =
            client.write(doc! { "update": "messages", "updates": [{ "q": q, "u": u }] }).await;
        assert_eq!(reply.get_i32("n").unwrap(), 1, "{reply}");
        sleep(Duration::from_millis(11)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn concurrent_faults_execute_each_write_once() {
    let it = zoned(V8_0).await;
    let users = (0..WRITERS).map(|id| {
        message(i32::from(id), if id.is_multiple_of(2) { "alfa" } else { "bravo" }, i32::from(id))
    });
    it.insert(users.collect()).await;
    let mut accounts = vec![message(100, "alfa", 100), message(101, "bravo", 100)];
    accounts.iter_mut().for_each(|it| drop(it.insert("balance", 0)));
    it.insert(accounts).await;
    let movers = async {
        for turn in 0..20 {
            sleep(Duration::from_millis(67)).await;
            for datacenter in ["alfa", "bravo"] {
                let other = if datacenter == "alfa" { "bravo" } else { "alfa" };
                let to = if turn % 2 == 0 { other } else { datacenter };
                let find = doc! { "datacenter": datacenter, "userid": 1 };
                let body = doc! { "moveChunk": "log.messages", "find": find, "to": to };
                // A shard without a primary, or a transaction, can make the migration fail.
                let _ = it.run_on(&it.mongos, "admin", body).await;
            }
        }
    };
    let failures = async {
        for turn in 0..12 {
            sleep(Duration::from_millis(103)).await;
            it.set(if turn % 2 == 0 { "alfa" } else { "bravo" }).step_down();
        }
    };
    let transfers = async {
        let mut client = client(&it, 99);
        for _ in 0..25 {
            client.transfer(100).await;
            sleep(Duration::from_millis(13)).await;
        }
    };
    let writers = async {
        tokio::join!(count_up(&it, 0), count_up(&it, 1), count_up(&it, 2), count_up(&it, 3));
    };
    tokio::join!(movers, failures, transfers, writers);
    let reply = it.ok(doc! { "find": "messages", "filter": {}, "sort": { "_id": 1 } }).await;
    let found = batch(&reply);
    assert_eq!(found.len(), usize::from(WRITERS) + 2, "{found:?}");
    for counter in &found[..usize::from(WRITERS)] {
        assert_eq!(i64::from(counter.get_i32("count").unwrap()), WRITES, "{counter}");
    }
    let balances: Vec<i32> = found[4..].iter().map(|it| it.get_i32("balance").unwrap()).collect();
    assert_eq!(balances, [-25, 25]);
    let mut executions: Vec<_> =
        ["alfa", "bravo"].iter().flat_map(|it_| it.set(it_).executions()).collect();
    executions.retain(|it| it.statement.is_some());
    assert!(executions.iter().all(|it| it.count == 1));
    let expected = usize::from(WRITERS) * usize::try_from(WRITES).unwrap() + 4 + 2;
    assert_eq!(executions.len(), expected);
}
