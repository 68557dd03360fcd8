//! Thousands of operations whose futures are dropped at every possible point, on a real replica
//! set: nothing is leaked, and nothing is mixed up.

use std::{
    collections::BTreeMap,
    future::{Future, IntoFuture, poll_fn},
    pin::pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    task::Poll,
    time::Duration,
};

use steadfast::{
    Client, Collection,
    bson::{Document, doc},
    event::{EventHandler, cmap::CmapEvent, command::CommandEvent},
    options::{ClientOptions, WriteConcern},
};

const TASKS: u64 = 64;
const OPERATIONS: u64 = 10_000;
const MAX_POOL_SIZE: u32 = 8;
const DOCUMENTS: i64 = 200;

/// Numbers that are the same in every run.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % sides
    }
}

/// What the events say of the connections to each server, and of commands.
#[derive(Default)]
struct Books {
    open: BTreeMap<String, u32>,
    most_open: u32,
    check_outs_started: u64,
    check_outs_ended: u64,
    checked_out: u64,
    checked_in: u64,
    commands_started: u64,
    commands_ended: u64,
}

impl Books {
    fn note_pool(&mut self, event: &CmapEvent) {
        match event {
            CmapEvent::ConnectionCreated(event) => {
                let open = self.open.entry(event.address.to_string()).or_default();
                *open += 1;
                self.most_open = self.most_open.max(*open);
            }
            CmapEvent::ConnectionClosed(event) => {
                *self.open.get_mut(&event.address.to_string()).expect("it was created") -= 1;
            }
            CmapEvent::ConnectionCheckoutStarted(_) => self.check_outs_started += 1,
            CmapEvent::ConnectionCheckoutFailed(_) => self.check_outs_ended += 1,
            CmapEvent::ConnectionCheckedOut(_) => {
                self.check_outs_ended += 1;
                self.checked_out += 1;
            }
            CmapEvent::ConnectionCheckedIn(_) => self.checked_in += 1,
            _ => {}
        }
    }

    fn note_command(&mut self, event: &CommandEvent) {
        match event {
            CommandEvent::Started(_) => self.commands_started += 1,
            _ => self.commands_ended += 1,
        }
    }

    /// Whether nothing is under way any more.
    fn are_balanced(&self) -> bool {
        self.check_outs_started == self.check_outs_ended
            && self.checked_out == self.checked_in
            && self.commands_started == self.commands_ended
    }
}

async fn client(books: &Arc<Mutex<Books>>) -> Client {
    let uri = testbed::shared::uri().expect("a deployment");
    let mut options = ClientOptions::parse(&uri).await.unwrap();
    options.max_pool_size = Some(MAX_POOL_SIZE);
    let (pools, commands) = (Arc::clone(books), Arc::clone(books));
    options.cmap_event_handler =
        Some(EventHandler::callback(move |event| pools.lock().unwrap().note_pool(&event)));
    options.command_event_handler =
        Some(EventHandler::callback(move |event| commands.lock().unwrap().note_command(&event)));
    Client::with_options(options).unwrap()
}

/// Polls a future at most `polls` times, each time it asks for it, then drops it.
async fn drop_after<F: IntoFuture>(polls: u64, future: F) -> Option<F::Output> {
    let mut future = pin!(future.into_future());
    let mut left = polls;
    poll_fn(|cx| {
        if left == 0 {
            return Poll::Ready(None);
        }
        left -= 1;
        match future.as_mut().poll(cx) {
            Poll::Ready(output) => Poll::Ready(Some(output)),
            // Cut off at once after the last poll, before anything else can happen.
            Poll::Pending if left == 0 => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}

/// One operation, dropped at a random point; if it is allowed to end, its answer must be its own.
async fn operate(collection: &Collection<Document>, dice: &mut Dice) {
    let id = i64::try_from(dice.roll(DOCUMENTS.unsigned_abs())).unwrap();
    let polls = 1 + dice.roll(5);
    let patience = Duration::from_micros(dice.roll(3_000));
    let kind = dice.roll(5);
    let operation = async {
        match kind {
            0 => {
                let found = collection.find_one(doc! { "_id": id }).await.unwrap().unwrap();
                assert_eq!(found.get_i64("_id").unwrap(), id, "somebody else's reply");
            }
            1 => {
                let update = doc! { "$inc": { "touched": 1 } };
                let result = collection.update_one(doc! { "_id": id }, update).await.unwrap();
                assert_eq!(result.matched_count, 1);
            }
            2 => {
                let mut cursor =
                    collection.find(doc! { "_id": { "$gte": id } }).batch_size(20).await.unwrap();
                let mut count = 0;
                while cursor.advance().await.unwrap() {
                    assert!(cursor.current().get_i64("_id").unwrap() >= id);
                    count += 1;
                }
                assert_eq!(count, DOCUMENTS - id);
            }
            3 => {
                let result = collection.insert_one(doc! { "_id": id }).await;
                assert!(result.unwrap_err().is_duplicate_key_error());
            }
            _ => {
                let filter = doc! { "_id": { "$lt": id } };
                let count = collection.count_documents(filter).await.unwrap();
                assert_eq!(i64::try_from(count).unwrap(), id);
            }
        }
    };
    // Half are cut at an await, half at a moment.
    if dice.roll(2) == 0 {
        drop_after(polls, operation).await;
    } else {
        drop(tokio::time::timeout(patience, operation).await);
    }
}

/// pitfalls 21, 22 and 38
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_dropped_operations_leak_nothing() {
    let books = Arc::new(Mutex::new(Books::default()));
    let client = client(&books).await;
    let collection = client.database("dropped").collection::<Document>("operations");
    collection.drop().await.unwrap();
    let documents = (0..DOCUMENTS).map(|id| doc! { "_id": id });
    let majority = WriteConcern::majority();
    collection.insert_many(documents).write_concern(majority).await.unwrap();

    let storm = (0..TASKS).map(|task| {
        let collection = collection.clone();
        tokio::spawn(async move {
            let mut dice = Dice(0x5eed ^ (task + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
            for _ in 0..OPERATIONS.div_ceil(TASKS) {
                operate(&collection, &mut dice).await;
            }
        })
    });
    for task in storm.collect::<Vec<_>>() {
        task.await.expect("no operation gets a wrong answer");
    }

    // Replies that nobody waits for are read in the background, for three seconds at most.
    let settled = async {
        while !books.lock().unwrap().are_balanced() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let settled = tokio::time::timeout(Duration::from_secs(60), settled).await;
    assert!(settled.is_ok(), "connections or events are missing");
    let most = books.lock().unwrap().most_open;
    assert!(most <= MAX_POOL_SIZE, "{most} connections to one server");

    every_slot_is_there(&client, &books).await;
}

/// As many operations as there may be connections run at the same time: no slot was lost.
async fn every_slot_is_there(client: &Client, books: &Arc<Mutex<Books>>) {
    let met = Arc::new(AtomicBool::new(false));
    let sleepers = (0..MAX_POOL_SIZE).map(|_| {
        let (admin, met) = (client.database("admin"), Arc::clone(&met));
        tokio::spawn(async move {
            // Again and again, until all of them have begun before the first ends.
            while !met.load(Relaxed) {
                let sleep = doc! { "sleep": 1, "millis": 500, "lock": "none" };
                admin.run_command(sleep).await.unwrap();
            }
        })
    });
    let sleepers: Vec<_> = sleepers.collect();
    let out_together = || {
        let books = books.lock().unwrap();
        books.checked_out == books.checked_in + u64::from(MAX_POOL_SIZE)
    };
    let all_out = async {
        while !out_together() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    let all_out = tokio::time::timeout(Duration::from_secs(60), all_out).await;
    met.store(true, Relaxed);
    for sleeper in sleepers {
        sleeper.await.unwrap();
    }
    assert!(all_out.is_ok(), "{MAX_POOL_SIZE} operations never ran at the same time");
}
