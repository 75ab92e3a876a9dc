//! Tests of snapshots by fork: the properties of all snapshots, and the end of the child processes.

#![allow(unsafe_code)]

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, BufRead, BufReader, Write};
use std::sync::Arc;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use anker_snapmem::{Error, ForkMemory, ForkSnapshot, ForkView, Pages, Pool, faults};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::common::{Holdings, check_bytes, for_seeds, scaled};

const PAGE: usize = 4096;
/// The longest region.
const MAX_BYTES: usize = 40 * PAGE;

/// For each region, by its number, the content that the region or a snapshot of it must have.
type Models = BTreeMap<usize, Vec<u8>>;

fn memory(pool: &Pool) -> ForkMemory {
    ForkMemory::new(pool, Pages::Small).unwrap()
}

/// Memory with one region that contains these bytes.
fn memory_with(pool: &Pool, bytes: &[u8]) -> ForkMemory {
    let mut memory = memory(pool);
    let region = memory.create();
    memory.grow(region, bytes.len()).unwrap();
    memory.write(region, 0, bytes).unwrap();
    memory
}

fn sum(bytes: &[u8]) -> u64 {
    bytes.chunks(8).fold(0, |sum, chunk| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        sum.wrapping_add(u64::from_le_bytes(word))
    })
}

fn check(snapshot: &ForkSnapshot, models: &Models, rnd: &mut StdRng) {
    for (&region, model) in models {
        assert_eq!(snapshot.len(region), Some(model.len()));
        if rnd.random() {
            let mut bytes = vec![0; model.len()];
            snapshot.read(region, 0, &mut bytes).unwrap();
            check_bytes(&bytes, model, || format!("region {region} of {snapshot:?}"));
        } else {
            let start = rnd.random_range(0..=model.len());
            let end = rnd.random_range(start..=model.len());
            assert_eq!(snapshot.sum(region, start..end).unwrap(), sum(&model[start..end]));
        }
    }
}

pub fn equals_plain_vectors_in_small_pages() {
    equals_plain_vectors(Pages::Small);
}

pub fn equals_plain_vectors_in_huge_pages() {
    equals_plain_vectors(Pages::Huge);
}

/// Makes random writes, growth, new and dropped regions, and snapshots of all or some regions, which other threads read
/// and drop.
fn equals_plain_vectors(pages: Pages) {
    for_seeds(20, |seed| {
        let pool = Pool::new(1 << 30);
        thread::scope(|scope| {
            let (sender, receiver) = mpsc::channel::<(Arc<ForkSnapshot>, Arc<Models>)>();
            let receiver = Arc::new(std::sync::Mutex::new(receiver));
            for reader in 0..2 {
                let receiver = receiver.clone();
                scope.spawn(move || {
                    let mut rnd = StdRng::seed_from_u64(seed * 10 + reader);
                    let mut held = Vec::new();
                    while let Ok((snapshot, models)) = { receiver.lock().unwrap().recv() } {
                        check(&snapshot, &models, &mut rnd);
                        held.push((snapshot, models));
                        if held.len() > 3 {
                            let (snapshot, models) = held.swap_remove(rnd.random_range(0..held.len()));
                            check(&snapshot, &models, &mut rnd);
                        }
                    }
                    held.iter().for_each(|(snapshot, models)| check(snapshot, models, &mut rnd));
                });
            }
            let mut rnd = StdRng::seed_from_u64(seed);
            let mut memory = ForkMemory::new(&pool, pages).unwrap();
            let mut models = Models::new();
            for _ in 0..200 {
                step(&mut memory, &mut models, &mut rnd, |snapshot, models| {
                    sender.send((snapshot.into(), models.into())).unwrap();
                });
            }
            for (&region, model) in &models {
                let mut bytes = vec![0; model.len()];
                memory.read(region, 0, &mut bytes);
                check_bytes(&bytes, model, || format!("region {region}"));
            }
        });
        assert_eq!((pool.used(), pool.snapshots()), (0, 0));
    });
}

fn step(memory: &mut ForkMemory, models: &mut Models, rnd: &mut StdRng, publish: impl FnOnce(ForkSnapshot, Models)) {
    let any = models.keys().nth(rnd.random_range(0..models.len().max(1))).copied();
    match (rnd.random_range(0..100), any) {
        (0..8, _) | (_, None) if models.len() < 5 => {
            models.insert(memory.create(), Vec::new());
        }
        (0..3, Some(region)) => {
            memory.drop_region(region);
            models.remove(&region);
        }
        (3..15, Some(region)) => {
            let model = models.get_mut(&region).unwrap();
            let len = rnd.random_range(model.len()..=(model.len() + 10_000).min(MAX_BYTES));
            memory.grow(region, len).unwrap();
            model.resize(len, 0);
        }
        (15..22, _) => {
            let threads = rnd.random_range(0..4);
            if rnd.random_bool(0.3) {
                publish(memory.snapshot(threads).unwrap(), models.clone());
            } else {
                let some: Models = models.clone().into_iter().filter(|_| rnd.random()).collect();
                let regions: Vec<_> = some.keys().copied().collect();
                publish(memory.snapshot_of(&regions, threads).unwrap(), some);
            }
        }
        (_, Some(region)) => {
            let model = models.get_mut(&region).unwrap();
            let offset = rnd.random_range(0..=model.len());
            let longest = if rnd.random_bool(0.1) { 9000 } else { 8 };
            let bytes = rnd.random_range(0..=longest.min(model.len() - offset));
            let bytes: Vec<u8> = (0..bytes).map(|_| rnd.random()).collect();
            memory.write(region, offset, &bytes).unwrap();
            model[offset..offset + bytes.len()].copy_from_slice(&bytes);
            let mut read = vec![0; bytes.len()];
            memory.read(region, offset, &mut read);
            assert_eq!(read, bytes);
        }
        _ => {}
    }
    if let Some((&region, model)) = models.first_key_value() {
        let usage = memory.usage(region);
        assert_eq!(usage.bytes, model.len() as u64);
        assert!(usage.shared_bytes <= model.len().next_multiple_of(PAGE) as u64, "{usage:?}");
    }
}

/// The writer always knows the sum that every snapshot must have. Several threads send requests to several threads of
/// the child.
pub fn sums_hold_while_the_writer_runs_flat_out() {
    let pool = Pool::new(1 << 30);
    let mut memory = memory_with(&pool, &[0; 1 << 20]);
    let words = memory.len(0) / 8;
    let mut rnd = StdRng::seed_from_u64(5);
    let mut wanted = 0u64;
    thread::scope(|scope| {
        let (sender, receiver) = mpsc::sync_channel::<(ForkSnapshot, u64)>(2);
        scope.spawn(move || {
            for (snapshot, wanted) in receiver {
                let half = words / 2 * 8;
                let ask = || {
                    let halves = thread::scope(|scope| {
                        let second = scope.spawn(|| snapshot.sum(0, half..words * 8).unwrap());
                        (snapshot.sum(0, 0..half).unwrap(), second.join().unwrap())
                    });
                    halves.0.wrapping_add(halves.1)
                };
                assert_eq!((ask(), ask()), (wanted, wanted));
            }
        });
        for _ in 0..scaled(150) {
            for _ in 0..rnd.random_range(0..2000) {
                let (word, to) = (rnd.random_range(0..words), rnd.random::<u64>());
                let mut from = [0; 8];
                memory.read(0, word * 8, &mut from);
                memory.write(0, word * 8, &to.to_le_bytes()).unwrap();
                wanted = wanted.wrapping_add(to).wrapping_sub(u64::from_le_bytes(from));
            }
            sender.send((memory.snapshot(2).unwrap(), wanted)).unwrap();
        }
    });
    assert_eq!(pool.snapshots(), 0);
}

/// Checks that this process has no child, dead or alive.
fn assert_no_children() {
    // SAFETY: asks for any child, without waiting.
    let found = unsafe { libc::waitpid(-1, std::ptr::null_mut(), libc::WNOHANG) };
    assert_eq!(found, -1, "a child is left");
}

fn kill(pid: u32, signal: i32) {
    // SAFETY: a child of ours that has not been reaped.
    assert_eq!(unsafe { libc::kill(pid as i32, signal) }, 0);
}

fn panic_in_child(_: &ForkView, _: [u64; 4], _: &mut [u8]) -> u64 {
    panic!("as asked")
}

fn crash_in_child(_: &ForkView, _: [u64; 4], _: &mut [u8]) -> u64 {
    // SAFETY: none; the child is to be killed for it.
    unsafe { std::ptr::without_provenance_mut::<u8>(8).write_volatile(1) };
    0
}

fn sleep_in_child(_: &ForkView, [seconds, ..]: [u64; 4], _: &mut [u8]) -> u64 {
    thread::sleep(Duration::from_secs(seconds));
    0
}

pub fn a_child_that_dies_is_an_error_and_reaped() {
    let pool = Pool::new(1 << 30);
    let mut memory = memory_with(&pool, &[7; 3 * PAGE]);
    let mut read = [0; PAGE];

    // The child is killed while it waits.
    let snapshot = memory.snapshot(2).unwrap();
    snapshot.read(0, 0, &mut read).unwrap();
    kill(snapshot.pid().unwrap(), libc::SIGKILL);
    for _ in 0..3 {
        let error = snapshot.read(0, 0, &mut read).unwrap_err().to_string();
        assert!(error.contains("SIGKILL"), "{error}");
    }
    assert_eq!(snapshot.pid(), None);
    assert_no_children();

    // The child is killed while it works for several threads.
    drop(snapshot);
    let snapshot = memory.snapshot(3).unwrap();
    thread::scope(|scope| {
        for _ in 0..5 {
            scope.spawn(|| assert!(snapshot.run(sleep_in_child, [1000, 0, 0, 0], &mut []).is_err()));
        }
        snapshot.wait_until_ready().unwrap();
        kill(snapshot.pid().unwrap(), libc::SIGKILL);
    });
    assert!(snapshot.sum(0, 0..8).is_err());

    // The child ends by its own fault, in its first thread or in another one.
    for (threads, job, how) in [
        (1, panic_in_child as anker_snapmem::Job, "exit status: 101"),
        (2, panic_in_child, "exit status: 101"),
        (1, crash_in_child, "SIGSEGV"),
        (2, crash_in_child, "SIGSEGV"),
    ] {
        for request in 0..threads {
            let snapshot = memory.snapshot(threads).unwrap();
            (0..request).for_each(|_| assert_eq!(snapshot.sum(0, 0..0).unwrap(), 0));
            let error = snapshot.run(job, [0; 4], &mut []).unwrap_err();
            assert!(matches!(error, Error::ChildEnded(_)) && error.to_string().contains(how), "{error}");
        }
    }
    assert_no_children();

    // The death of the child does not affect the parent's memory.
    assert_eq!(memory.usage(0).snapshots, 1);
    drop(snapshot);
    memory.write(0, 0, &[8; PAGE]).unwrap();
    memory.snapshot(1).unwrap().read(0, 0, &mut read).unwrap();
    assert_eq!(read, [8; PAGE]);
    drop(memory);
    assert_eq!((pool.used(), pool.snapshots()), (0, 0));
}

pub fn a_busy_child_ends_with_its_snapshot() {
    let pool = Pool::new(1 << 30);
    let mut memory = memory_with(&pool, &[7; PAGE]);
    let snapshot = Arc::new(memory.snapshot(1).unwrap());
    let asked = snapshot.clone();
    // The thread that waits for an answer outlives this test, but the child does not.
    thread::spawn(move || asked.run(sleep_in_child, [1000, 0, 0, 0], &mut []));
    thread::sleep(Duration::from_millis(50));
    kill(snapshot.pid().unwrap(), libc::SIGKILL);
    let snapshot = memory.snapshot(1).unwrap();
    let pid = snapshot.pid().unwrap();
    drop(snapshot);
    assert!(!fs::exists(format!("/proc/{pid}")).unwrap());
}

/// Signals for the parent, such as an interrupt from the terminal, do not reach the child.
pub fn signals_do_not_reach_the_child() {
    let pool = Pool::new(1 << 30);
    let mut memory = memory_with(&pool, &[7; PAGE]);
    let snapshot = memory.snapshot(2).unwrap();
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGUSR1, libc::SIGPIPE, libc::SIGALRM] {
        kill(snapshot.pid().unwrap(), signal);
        assert_eq!(snapshot.sum(0, 0..8).unwrap(), 0x0707070707070707);
    }
}

pub fn a_child_survives_the_thread_that_forked_it() {
    let pool = Pool::new(1 << 30);
    let mut memory = memory_with(&pool, &[7; PAGE]);
    let snapshot = thread::scope(|scope| scope.spawn(|| memory.snapshot(2).unwrap()).join().unwrap());
    for _ in 0..5 {
        thread::sleep(Duration::from_millis(5));
        assert_eq!(snapshot.sum(0, 0..8).unwrap(), 0x0707070707070707);
    }
}

/// Children end with their parent, even if they are busy.
pub fn children_end_with_their_parent() {
    let (reader, mut writer) = io::pipe().unwrap();
    // SAFETY: this process has no other thread.
    let parent = unsafe { libc::fork() };
    if parent == 0 {
        let pool = Pool::new(1 << 30);
        let mut memory = memory_with(&pool, &[7; PAGE]);
        let (idle, busy) = (memory.snapshot(2).unwrap(), memory.snapshot(2).unwrap());
        thread::spawn(move || {
            busy.wait_until_ready().unwrap();
            writeln!(writer, "{} {}", idle.pid().unwrap(), busy.pid().unwrap()).unwrap();
            busy.run(sleep_in_child, [1000, 0, 0, 0], &mut [])
        });
        loop {
            thread::park();
        }
    }
    drop(writer);
    let mut pids = String::new();
    BufReader::new(reader).read_line(&mut pids).unwrap();
    kill(parent as u32, libc::SIGKILL);
    assert_eq!(pids.split_whitespace().count(), 2);
    for pid in pids.split_whitespace() {
        // The child is gone, or is dead and waits to be reaped by the process that adopted it. If it lived, this test
        // would never end.
        let lives = || {
            let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
            status.contains("State:") && !status.contains("State:\tZ") && !status.contains("State:\tX")
        };
        while lives() {
            thread::sleep(Duration::from_millis(5));
        }
    }
}

/// A job that returns which regions exist, as bits. Its reply has the first byte of each region.
fn survey(view: &ForkView, [regions, ..]: [u64; 4], reply: &mut [u8]) -> u64 {
    (0..regions as usize).fold(0, |found, region| match view.region(region) {
        Some(bytes) => {
            reply[region] = bytes[0];
            found | 1 << region
        }
        None => found,
    })
}

/// A child of a snapshot of one region does not get the other regions, nor the parent's files.
pub fn a_child_gets_what_it_is_asked_for() {
    const BYTES: usize = 8 << 20;
    let pool = Pool::new(1 << 30);
    let mut memory = memory(&pool);
    for region in 0..8 {
        memory.create();
        memory.grow(region, BYTES).unwrap();
        memory.write(region, BYTES - 8, &[region as u8; 8]).unwrap();
    }
    let pages = |snapshot: &ForkSnapshot| -> usize {
        snapshot.wait_until_ready().unwrap();
        let statm = fs::read_to_string(format!("/proc/{}/statm", snapshot.pid().unwrap())).unwrap();
        statm.split(' ').next().unwrap().parse().unwrap()
    };
    let file = fs::File::open("/proc/self/exe").unwrap();
    let (all, one, none) =
        (memory.snapshot(1).unwrap(), memory.snapshot_of(&[3], 1).unwrap(), memory.snapshot_of(&[], 1).unwrap());
    // A child also has mappings that this process has made since the last snapshot, for example the board. So the
    // numbers are not exact.
    let about = |pages: usize| pages - 100..=pages;
    assert!(about(7 * BYTES / PAGE).contains(&(pages(&all) - pages(&one))));
    assert!(about(BYTES / PAGE).contains(&(pages(&one) - pages(&none))));
    for region in 0..8 {
        let wanted = [region as u8; 8];
        assert_eq!(all.sum(region, BYTES - 8..BYTES).unwrap(), u64::from_le_bytes(wanted));
        assert_eq!(one.len(region), (region == 3).then_some(BYTES));
        assert_eq!(none.len(region), None);
    }
    assert_eq!(one.sum(3, BYTES - 8..BYTES).unwrap(), 0x0303030303030303);
    let files = fs::read_dir(format!("/proc/{}/fd", one.pid().unwrap())).unwrap();
    assert!(files.map(|file| file.unwrap().file_name()).all(|file| file == "2"));
    drop(file);
    assert_eq!((memory.usage(3).snapshots, memory.usage(2).snapshots), (2, 1));
    // Writing to a page that no child shares charges nothing.
    drop(all);
    let used = pool.used();
    memory.write(2, 0, &[1; PAGE]).unwrap();
    assert_eq!(pool.used(), used);
    memory.write(3, 0, &[1; PAGE]).unwrap();
    assert_eq!(pool.used(), used + PAGE as u64);
    drop(one);
    assert_eq!(pool.used(), used);

    memory.write(3, 0, &[9]).unwrap();
    let mut firsts = [0; 8];
    assert_eq!(memory.snapshot(1).unwrap().run(survey, [8, 0, 0, 0], &mut firsts).unwrap(), 0xff);
    assert_eq!(firsts, [0, 0, 1, 9, 0, 0, 0, 0]);
    assert_eq!(memory.snapshot_of(&[6, 3], 1).unwrap().run(survey, [99, 0, 0, 0], &mut []).unwrap(), 1 << 6 | 1 << 3);
}

/// If any one system call fails, or the pool's limit is reached, the result is an error, and everything stays as it
/// was.
pub fn refusals_leave_everything_as_it_was() {
    let mut refused = 0;
    for nth in 0..30 {
        let pool = Pool::new((5 + nth) * PAGE as u64);
        let mut memory = memory(&pool);
        let region = memory.create();
        let mut model = Vec::new();
        let mut snapshots = Vec::new();
        let armed = faults::fail_call(nth);
        for i in 0..6 {
            match memory.grow(region, (i + 1) * PAGE) {
                Ok(()) => model.resize((i + 1) * PAGE, 0),
                Err(_) => refused += 1,
            }
            let bytes = vec![i as u8 + 1; model.len()];
            match memory.write(region, 0, &bytes) {
                Ok(()) => model.copy_from_slice(&bytes),
                Err(_) => refused += 1,
            }
            // The failing call may also be made by the child, when it starts a thread.
            match memory.snapshot(2).and_then(|snapshot| snapshot.wait_until_ready().map(|()| snapshot)) {
                Ok(snapshot) => snapshots.push((snapshot, model.clone())),
                Err(error) => {
                    assert!(error.to_string().contains("Cannot allocate memory"), "{error}");
                    refused += 1;
                }
            }
            assert!(pool.used() <= pool.limit());
            let mut read = vec![0; memory.len(region)];
            memory.read(region, 0, &mut read);
            assert_eq!(read, model);
            for (snapshot, model) in &snapshots {
                let mut read = vec![0; model.len()];
                snapshot.read(region, 0, &mut read).unwrap();
                assert_eq!(read, *model);
            }
        }
        drop(armed);
        drop(snapshots);
        memory.write(region, 0, &vec![9; model.len()]).unwrap();
        drop(memory);
        assert_eq!((pool.used(), pool.snapshots()), (0, 0));
        assert_no_children();
    }
    assert!(refused > 30, "{refused}");
}

/// The system refuses to start another process, or another thread in it.
pub fn fork_failing_says_what_to_do() {
    let pool = Pool::new(1 << 30);
    let mut memory = memory_with(&pool, &[7; PAGE]);
    // The limit does not apply to root, so the test becomes a user that has no other process. SAFETY: changes the
    // identity of this process, which belongs to the test alone.
    let alone = unsafe { libc::geteuid() != 0 || libc::setuid(54321) == 0 };
    assert!(alone);
    let live = memory.snapshot(1).unwrap();
    let limit = |processes| {
        let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: asks for a limit of this process, and sets it.
        unsafe {
            assert_eq!(libc::getrlimit(libc::RLIMIT_NPROC, &mut limit), 0);
            limit.rlim_cur = processes;
            assert_eq!(libc::setrlimit(libc::RLIMIT_NPROC, &limit), 0);
        }
    };
    // The limit allows three threads: this process, its child, and one more process. That process cannot start a second
    // thread.
    limit(3);
    let error = memory.snapshot(2).unwrap().wait_until_ready().unwrap_err().to_string();
    assert!(error.starts_with("pthread_create in the child failed") && error.contains("ulimit -u"), "{error}");
    limit(1);
    let error = memory.snapshot(1).unwrap_err().to_string();
    assert!(error.starts_with("fork failed") && error.contains("ulimit -u"), "{error}");
    assert_eq!(pool.snapshots(), 1);
    memory.write(0, 0, &[8; PAGE]).unwrap();
    limit(3);
    assert_eq!(memory.snapshot(1).unwrap().sum(0, 0..8).unwrap(), 0x0808080808080808);
    assert_eq!(live.sum(0, 0..8).unwrap(), 0x0707070707070707);
}

pub fn memory_returns_after_10_000_snapshots() {
    let pool = Pool::new(1 << 30);
    let mut memory = memory_with(&pool, &[7; 64 * PAGE]);
    let used = pool.used();
    let mut rnd = StdRng::seed_from_u64(3);
    let mut alive = Vec::new();
    let snapshots = scaled(10_000);
    let mut before = None;
    for i in 0..snapshots {
        alive.push(memory.snapshot(1 + i % 2).unwrap());
        if alive.len() > 3 {
            alive.swap_remove(rnd.random_range(0..alive.len()));
        }
        memory.write(0, rnd.random_range(0..64 * PAGE), &[1]).unwrap();
        if i == snapshots / 10 {
            before = Some(Holdings::now());
        }
    }
    Holdings::now().assert_as_little_as(before.unwrap());
    drop(alive);
    assert_no_children();
    assert_eq!((pool.used(), pool.snapshots()), (used, 0));
    assert_eq!((memory.usage(0).snapshots, memory.usage(0).shared_bytes), (0, 0));
    assert!(pool.copied() > 0);
}

/// A child is charged for at most one copy of each page that it shares, however often the page is written under later
/// children.
pub fn an_old_child_is_charged_for_no_more_than_it_shares() {
    let pool = Pool::new(16 << 20);
    let mut memory = ForkMemory::new(&pool, Pages::Small).unwrap();
    let region = memory.create();
    memory.grow(region, 16 << 10).unwrap();
    memory.write(region, 0, &[1]).unwrap();
    let old = memory.snapshot(1).unwrap();
    let before = pool.used();
    for _ in 0..scaled(2000) {
        let young = memory.snapshot(1).unwrap();
        memory.write(region, 0, &[2]).unwrap();
        drop(young);
    }
    assert!(pool.used() <= before + (32 << 10), "{} after {before}", pool.used());
    drop(old);
}
