//! Tests of snapshots that are only declared (AnKer §3.2.1), and made when they are needed.

use anker_snapmem::Pool;

use crate::common::{Subject, check_snapshot};

/// If nobody reads a region's snapshots, they are never made. If several are read before the region changes, only one
/// is made.
pub fn what_is_neither_read_nor_written_costs_nothing(subject: Subject) {
    const RUNS: usize = 8;
    let pool = Pool::new(1 << 30);
    let mut columns: Vec<_> = (0..3).map(|_| subject.region_of(&pool, RUNS)).collect();
    for (i, column) in columns.iter_mut().enumerate() {
        (0..RUNS).for_each(|run| column.write(run * subject.run_bytes, &[i as u8]).unwrap());
    }
    let model = |i: usize| {
        let mut bytes = vec![0; RUNS * subject.run_bytes];
        (0..RUNS).for_each(|run| bytes[run * subject.run_bytes] = i as u8);
        bytes
    };
    let (used, copied) = (pool.used(), pool.copied());
    // The pool counts only the snapshots that were made.
    let mut declared: Vec<Vec<_>> = Vec::new();
    for _ in 0..100 {
        declared.push(columns.iter_mut().map(|column| column.snapshot().unwrap()).collect());
    }
    assert_eq!((pool.snapshots(), pool.used(), pool.copied()), (0, used, copied));
    // The first column is written, the second one is read, and the third one is neither.
    for i in 1..=10 {
        columns[0].write(0, &[i]).unwrap();
        check_snapshot(&*declared[i as usize][1], &model(1));
    }
    assert_eq!(pool.snapshots(), 2);
    declared.iter().for_each(|snapshots| check_snapshot(&*snapshots[0], &model(0)));
    assert_eq!(columns.iter().map(|column| column.usage().snapshots).sum::<u64>(), 300);
    // An actual snapshot ends when the last declared snapshot that uses it is dropped.
    let last = declared.pop().unwrap();
    drop(declared);
    assert_eq!(pool.snapshots(), 2);
    last.iter().enumerate().for_each(|(i, snapshot)| check_snapshot(&**snapshot, &model(i)));
    drop(last);
    assert_eq!(pool.snapshots(), 0);
    // A declared snapshot that was dropped unread is not made when the region is written.
    let (taken, copied) = (columns[2].snapshot().unwrap(), pool.copied());
    drop(taken);
    columns[2].write(0, &[7]).unwrap();
    assert_eq!((pool.snapshots(), pool.copied()), (0, copied));
}
