//! Memory that queries free returns to the system soon.

use std::time::{Duration, Instant};

use plan::Agg;
use protocol::control::Settings;

use crate::accounts::{self, NAME, account, column};
use crate::client::{Client, request};
use crate::worker::{PATIENCE, Worker};

#[test]
fn memory_that_queries_leave_is_given_back() {
    const ROWS: i64 = 400_000;
    /// The greatest memory of the idle process beside the mirror. `BUSY` is the least memory that it must have held, so
    /// that this test means something.
    const AT_REST: u64 = 32 << 20;
    const BUSY: u64 = 48 << 20;
    let mut worker = Worker::start(&Settings::default());
    worker.mirror(1, 1, (0..ROWS).map(account));
    // A group for every row, by clients that come and go, and by one that stays.
    let groups = accounts::aggregate(1, Vec::new(), vec![column(NAME)], vec![Agg::CountStar]);
    let groups = request(groups, worker.now());
    let mut stays = worker.client();
    for _ in 0..3 {
        assert_eq!(worker.client().rows(&groups).count(), ROWS as u64);
        assert_eq!(stays.rows(&groups).count(), ROWS as u64);
    }
    let beside = |client: &mut Client| worker.private_bytes().saturating_sub(client.status().memory_bytes);
    let busy = beside(&mut stays);
    assert!(busy > BUSY, "{busy} bytes beside the mirror: this tries nothing");
    let start = Instant::now();
    while beside(&mut stays) > AT_REST {
        assert!(start.elapsed() < PATIENCE, "{} bytes beside the mirror, {busy} before", beside(&mut stays));
        std::thread::sleep(Duration::from_millis(200));
    }
}
