//! Expiry and reuse of server sessions.

use super::*;

const LIFETIME: Option<Duration> = Some(Duration::from_secs(30 * 60));

fn minutes(count: u64) -> Duration {
    Duration::from_secs(60 * count)
}

fn acquire(pool: &mut SessionPool, now: Instant) -> ServerSession {
    pool.acquire(LIFETIME, now, Uuid::new)
}

#[test]
fn most_recently_released_session_is_acquired_first() {
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
fn txn_number_only_increases_across_users() {
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
fn txn_number_is_never_reused_after_the_maximum() {
    let mut session = ServerSession::new(Uuid::new(), Instant::now());
    session.txn_number = i64::MAX - 1;
    assert_eq!(session.next_txn_number(), Some(i64::MAX));
    assert_eq!(session.next_txn_number(), None);
}

#[test]
fn dirty_session_is_not_pooled() {
    // pitfall 17
    let now = Instant::now();
    let mut pool = SessionPool::default();
    let mut session = acquire(&mut pool, now);
    session.mark_dirty();
    session.mark_used(now);
    pool.release(session, LIFETIME, now);
    assert!(pool.is_empty());
}

#[test]
fn session_expires_a_minute_before_its_server_timeout() {
    let now = Instant::now();
    let mut pool = SessionPool::default();
    let session = acquire(&mut pool, now);
    let id = session.id().clone();
    pool.release(session, LIFETIME, now);
    let again = acquire(&mut pool, now + minutes(29));
    assert_eq!(*again.id(), id);
    pool.release(again, LIFETIME, now + minutes(29));
    // Time in the pool does not count as use.
    assert_ne!(*acquire(&mut pool, now + minutes(30)).id(), id);
}

#[test]
fn every_session_expires_by_its_own_last_use() {
    // pitfall 27
    let now = Instant::now();
    let mut pool = SessionPool::default();
    let old = acquire(&mut pool, now);
    let mut young = acquire(&mut pool, now);
    pool.release(old, LIFETIME, now);
    young.mark_used(now + minutes(20));
    let id = young.id().clone();
    pool.release(young, LIFETIME, now + minutes(40));
    assert_eq!(pool.len(), 1, "the old one was given up on the way");
    assert_eq!(*acquire(&mut pool, now + minutes(40)).id(), id);
}

#[test]
fn sessions_do_not_expire_behind_a_load_balancer() {
    let now = Instant::now();
    let mut pool = SessionPool::default();
    let session = pool.acquire(None, now, Uuid::new);
    let id = session.id().clone();
    pool.release(session, None, now);
    assert_eq!(*pool.acquire(None, now + minutes(1_000), Uuid::new).id(), id);
}

#[test]
fn drain_returns_all_pooled_sessions() {
    let now = Instant::now();
    let mut pool = SessionPool::default();
    let sessions: Vec<_> = (0..3).map(|_| acquire(&mut pool, now)).collect();
    for session in sessions {
        pool.release(session, LIFETIME, now);
    }
    assert_eq!(pool.drain().len(), 3);
    assert!(pool.is_empty());
}
