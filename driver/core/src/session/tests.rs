//! Sessions grow older, and only the right ones come back.

use super::*;

const LIFETIME: Option<Duration> = Some(Duration::from_secs(30 * 60));

fn minutes(count: u64) -> Duration {
    Duration::from_secs(60 * count)
}

fn acquire(pool: &mut SessionPool, now: Instant) -> ServerSession {
    pool.acquire(LIFETIME, now, Uuid::new)
}

#[test]
fn the_session_that_came_back_last_is_used_next() {
    let now = Instant::now();
    let mut pool = SessionPool::default();
    let (first, second) = (acquire(&mut pool, now), acquire(&mut pool, now));
    let (first_id, second_id) = (first.id().clone(), second.id().clone());
    assert_ne!(first_id, second_id);
    pool.release(first, LIFETIME, now);
    pool.release(second, LIFETIME, now);
    assert_eq!(*acquire(&mut pool, now).id(), second_id);
    assert_eq!(*acquire(&mut pool, now).id(), first_id);
}

#[test]
fn numbers_only_grow_also_from_one_user_to_the_next() {
    // pitfalls 4, 5 and 6
    let now = Instant::now();
    let mut pool = SessionPool::default();
    let mut session = acquire(&mut pool, now);
    assert_eq!(session.next_txn_number(), Some(1));
    assert_eq!(session.next_txn_number(), Some(2));
    pool.release(session, LIFETIME, now);
    assert_eq!(acquire(&mut pool, now).next_txn_number(), Some(3));
}

#[test]
fn a_number_is_never_used_twice_even_at_the_end_of_all_numbers() {
    let mut session = ServerSession::new(Uuid::new(), Instant::now());
    session.txn_number = i64::MAX - 1;
    assert_eq!(session.next_txn_number(), Some(i64::MAX));
    assert_eq!(session.next_txn_number(), None);
}

#[test]
fn a_dirty_session_never_comes_back() {
    // pitfall 17
    let now = Instant::now();
    let mut pool = SessionPool::default();
    let mut session = acquire(&mut pool, now);
    session.mark_dirty();
    session.used(now);
    pool.release(session, LIFETIME, now);
    assert!(pool.is_empty());
}

#[test]
fn a_session_expires_a_minute_before_the_servers_forget_it() {
    let now = Instant::now();
    let mut pool = SessionPool::default();
    let session = acquire(&mut pool, now);
    let id = session.id().clone();
    pool.release(session, LIFETIME, now);
    let again = acquire(&mut pool, now + minutes(29));
    assert_eq!(*again.id(), id);
    pool.release(again, LIFETIME, now + minutes(29));
    // Resting does not make it younger: only use does.
    assert_ne!(*acquire(&mut pool, now + minutes(30)).id(), id);
}

#[test]
fn each_session_is_judged_by_its_own_age() {
    // pitfall 27
    let now = Instant::now();
    let mut pool = SessionPool::default();
    let old = acquire(&mut pool, now);
    let mut young = acquire(&mut pool, now);
    pool.release(old, LIFETIME, now);
    young.used(now + minutes(20));
    let id = young.id().clone();
    pool.release(young, LIFETIME, now + minutes(40));
    assert_eq!(pool.len(), 1, "the old one was given up on the way");
    assert_eq!(*acquire(&mut pool, now + minutes(40)).id(), id);
}

#[test]
fn behind_a_load_balancer_nothing_expires() {
    let now = Instant::now();
    let mut pool = SessionPool::default();
    let session = pool.acquire(None, now, Uuid::new);
    let id = session.id().clone();
    pool.release(session, None, now);
    assert_eq!(*pool.acquire(None, now + minutes(1_000), Uuid::new).id(), id);
}

#[test]
fn all_that_rest_are_ended_at_the_end() {
    let now = Instant::now();
    let mut pool = SessionPool::default();
    let sessions: Vec<_> = (0..3).map(|_| acquire(&mut pool, now)).collect();
    for session in sessions {
        pool.release(session, LIFETIME, now);
    }
    assert_eq!(pool.drain().len(), 3);
    assert!(pool.is_empty());
}
