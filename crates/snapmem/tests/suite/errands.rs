//! Tests of children that are forked for one task.

#![allow(unsafe_code)]

use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use anker_snapmem::{Errand, Error, ForkedErrand, Pool, faults};

/// A task that sums up numbers, or does something else that may happen in a child.
struct Sum {
    numbers: Vec<u64>,
    scratch: Vec<u64>,
    asked: u8,
    then: Then,
}

enum Then {
    Reply,
    Hang,
    Die,
    Panic,
    Claim,
}

impl Errand for Sum {
    fn run(&mut self, reply: &mut [u8]) -> usize {
        self.asked += 1;
        match self.then {
            Then::Hang => loop {
                std::hint::spin_loop();
            },
            // SAFETY: ends this process, which has nothing to tidy up.
            Then::Die => unsafe { libc::_exit(7) },
            Then::Panic => panic!("on purpose"),
            Then::Claim => return usize::MAX,
            Then::Reply => {}
        }
        // A child may write to memory that existed at the fork.
        self.scratch.copy_from_slice(&self.numbers);
        reply[..8].copy_from_slice(&self.scratch.iter().sum::<u64>().to_le_bytes());
        reply[8] = self.asked;
        9
    }
}

fn sum(then: Then) -> Sum {
    let numbers: Vec<u64> = (0..100_000).collect();
    Sum { scratch: vec![0; numbers.len()], numbers, asked: 0, then }
}

fn forked(then: Then, pool: &Pool) -> ForkedErrand {
    ForkedErrand::fork(sum(then), 100, pool).unwrap()
}

fn is_gone(pid: u32) -> bool {
    !Path::new(&format!("/proc/{pid}")).exists()
}

pub fn a_child_has_what_the_parent_had_and_keeps_it() {
    let pool = Pool::new(1 << 20);
    let errand = forked(Then::Reply, &pool);
    assert_eq!(pool.snapshots(), 1);
    // The parent has dropped the tasks, and other objects now lie at their addresses.
    let others: Vec<Sum> = (0..10).map(|_| sum(Then::Die)).collect();
    for asked in 1..=3 {
        let reply = errand.ask().unwrap();
        assert_eq!(reply[..8], 4_999_950_000_u64.to_le_bytes());
        assert_eq!(reply[8..], [asked]);
    }
    let pid = errand.pid().unwrap();
    drop((errand, others));
    assert!(is_gone(pid), "the child outlives its end, or was not waited for");
    assert_eq!((pool.snapshots(), pool.used()), (0, 0));
}

pub fn children_that_end_are_errors() {
    let pool = Pool::new(1 << 20);
    for (then, code) in [(Then::Die, 7), (Then::Panic, 101)] {
        let errand = forked(then, &pool);
        let pid = errand.pid().unwrap();
        for _ in 0..2 {
            assert!(matches!(errand.ask(), Err(Error::ChildEnded(status)) if status.code() == Some(code)));
        }
        assert!(is_gone(pid) && errand.pid().is_none());
        errand.end();
    }
    // The child is busy with its task when it is ended.
    let errand = Arc::new(forked(Then::Hang, &pool));
    let asking = thread::spawn({
        let errand = errand.clone();
        move || errand.ask()
    });
    thread::sleep(Duration::from_millis(50));
    errand.end();
    assert!(matches!(asking.join().unwrap(), Err(Error::ChildEnded(_))));
    let busy = forked(Then::Reply, &pool);
    let pid = busy.pid().unwrap();
    drop(busy);
    assert!(is_gone(pid));
}

pub fn a_reply_is_never_longer_than_its_room() {
    assert_eq!(forked(Then::Claim, &Pool::new(1 << 20)).ask().unwrap().len(), 100);
}

pub fn calls_that_fail_leave_nothing_behind() {
    let pool = Pool::new(1 << 20);
    for nth in 0.. {
        let armed = faults::fail_call(nth);
        let errand = ForkedErrand::fork(sum(Then::Reply), 100, &pool);
        if !armed.fired() {
            assert!(nth > 1 && errand.is_ok());
            break;
        }
        assert!(errand.is_err(), "call {nth}");
        assert_eq!(pool.snapshots(), 0);
    }
}
