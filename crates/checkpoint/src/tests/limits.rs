//! Limits of space and speed, and the lock.

use std::os::unix::fs::PermissionsExt;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::{DATABASE, Folder, LIMITS, Tables, two, write};
use crate::{Directory, Error, Limits, Pace};

#[test]
fn checkpoints_beyond_a_limit_leave_nothing() {
    let [before, after] = two();
    let folder = Folder::new();
    let mut directory = folder.open();
    let first = write(&mut directory, &before, &Tables::new(), LIMITS).unwrap();
    directory.confirm(first.id).unwrap();
    let (files, bytes) = (folder.files(), directory.bytes().unwrap());
    let mut refused = 0;
    // The old checkpoint counts, too.
    for more in 0.. {
        let limits = Limits { bytes: bytes + more, ..LIMITS };
        match write(&mut directory, &after, &before, limits) {
            Err(Error::Limit { limit }) => assert!(limit == bytes + more && folder.files() == files),
            Err(error) => panic!("{error}"),
            Ok(_) => break,
        }
        refused += 1;
    }
    // The random id takes more bytes or fewer.
    assert!(directory.bytes().unwrap().abs_diff(bytes + refused) < 4);
    directory.confirm(first.id).unwrap();
    for free in [0, (1 << 30) - 1, 1 << 30] {
        directory.disk.pretended.set(Some(free));
        let refused = write(&mut directory, &after, &before, LIMITS).unwrap_err();
        assert!(matches!(refused, Error::NoSpace { reserve: 0x4000_0000 }), "{refused}");
        assert_eq!(folder.files(), files);
    }
    directory.disk.pretended.set(Some((1 << 30) + (1 << 20)));
    write(&mut directory, &after, &before, LIMITS).unwrap();
}

#[test]
fn writing_is_slowed_down_and_cancelled() {
    let folder = Folder::new();
    let mut directory = folder.open();
    let limits = Limits::new(1 << 30);
    let write = |directory: &mut Directory, pace: Pace| {
        let mut checkpoint = directory.begin(limits, pace)?;
        let mut table = checkpoint.table();
        table.chunk(1, 1);
        for _ in 0..40 {
            table.write(1, &[1; 100_000])?;
        }
        table.finish(Default::default(), 1, 1);
        checkpoint.finish(vec![])
    };
    let before = Instant::now();
    let pace = Pace { bytes_per_second: Some(10_000_000), ..Pace::default() };
    let finished = write(&mut directory, pace.clone()).unwrap();
    assert!(before.elapsed() >= Duration::from_millis(390) && finished.bytes_written >= 4_000_000);
    directory.confirm(finished.id).unwrap();
    let files = folder.files();
    let slow = Pace { bytes_per_second: Some(1000), ..pace };
    let cancel = slow.cancel.clone();
    let later = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(50));
        cancel.store(true, Ordering::Relaxed);
    });
    assert!(matches!(write(&mut directory, slow), Err(Error::Cancelled)));
    later.join().unwrap();
    assert_eq!(folder.files(), files);
}

#[test]
fn one_engine_at_a_time() {
    let folder = Folder::new();
    let directory = folder.open();
    let refused = Directory::open(&folder.path(), DATABASE).unwrap_err();
    assert!(matches!(&refused, Error::Busy(path) if *path == folder.path()), "{refused}");
    drop(directory);
    folder.open();
}

#[test]
fn nobody_else_may_read_the_files() {
    let folder = Folder::new();
    let mut directory = folder.open();
    write(&mut directory, &two()[0], &Tables::new(), LIMITS).unwrap();
    let mode = |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&folder.path()), 0o700);
    let entries = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap());
    for entry in entries {
        assert_eq!(mode(&entry.path()), 0o600);
        assert!(entry.file_name().to_string_lossy().starts_with("pgsql_tmp_"));
    }
}

/// Prints the speed: `cargo test --release -p anker-checkpoint -- --ignored --nocapture speed`.
#[test]
#[ignore = "measures only"]
fn speed_of_files() {
    let folder = Folder::new();
    let mut directory = folder.open();
    let bytes: Vec<u8> = (0..100_000u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    let before = Instant::now();
    let mut checkpoint = directory.begin(Limits::new(1 << 33), Pace::default()).unwrap();
    let mut table = checkpoint.table();
    for _ in 0..500 {
        table.chunk(1, 1);
        (0..20).for_each(|_| table.write(1, &bytes).unwrap());
    }
    table.finish(Default::default(), 1, 1);
    let finished = checkpoint.finish(vec![]).unwrap();
    let gigabytes = |before: Instant| finished.bytes_written as f64 / before.elapsed().as_secs_f64() / 1e9;
    println!("written: {:.2} GB/s", gigabytes(before));
    let manifest = directory.remains()[0].clone();
    let before = Instant::now();
    let mut reader = directory.table(&manifest.tables[0]).unwrap();
    while reader.next_chunk().unwrap().is_some() {}
    println!("read again: {:.2} GB/s", gigabytes(before));
}
