//! The board: memory that parent and child share. It has a slot for the requests and replies of each thread of the
//! child.
//!
//! ```text
//!   child   STARTING -> IDLE                  -> ANSWERED
//!   parent                   -> ASKED                     -> IDLE
//! ```
//!
//! The slot's state says whose turn it is, and only that side uses the other fields of the slot.

use std::cell::UnsafeCell;
use std::ptr;
use std::sync::atomic::{AtomicI32, AtomicPtr, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use crate::memory::error::Error;
use crate::memory::sys::Mapping;

/// The greatest length of a reply, not counting its value.
pub const REPLY_BYTES: usize = 64 << 10;

const STARTING: u32 = 0;
const IDLE: u32 = 1;
const ASKED: u32 = 2;
const ANSWERED: u32 = 3;

/// A waiting thread checks the state this many times before it sleeps. So many checks take about as long as waking up.
const LOOKS: u32 = 2000;
/// The parent sleeps for this time before it checks whether the child is still alive.
const PATIENCE: Duration = Duration::from_millis(10);

pub struct Board {
    mapping: Mapping,
    slots: usize,
}

#[repr(C, align(64))]
pub struct Slot {
    turn: AtomicU32,
    /// The reason why the child could not start its threads: an `errno`, or 0. Only the first slot's field is used.
    failure: AtomicI32,
    /// A `Job`. It has the same address in the child as in the parent.
    job: AtomicPtr<()>,
    arguments: [AtomicU64; 4],
    value: AtomicU64,
    reply: UnsafeCell<[u8; REPLY_BYTES]>,
}

impl Board {
    pub fn new(slots: usize) -> Result<Board, Error> {
        // Zeros are a valid slot: its state is STARTING, without a failure.
        Ok(Board { mapping: Mapping::common(slots * size_of::<Slot>())?, slots })
    }

    pub fn slots(&self) -> usize {
        self.slots
    }

    pub fn slot(&self, index: usize) -> &Slot {
        let slot = self.mapping.part(index * size_of::<Slot>(), size_of::<Slot>());
        // SAFETY: checked to lie within the mapping, which starts at a page. Any bytes are a valid slot, and all of
        // it is atomic except the reply, which the turn protects.
        unsafe { &*slot.cast::<Slot>() }
    }

    pub fn set_failure(&self, errno: i32) {
        self.slot(0).failure.store(errno, Ordering::Release);
    }

    pub fn failure(&self) -> Option<i32> {
        Some(self.slot(0).failure.load(Ordering::Acquire)).filter(|&errno| errno != 0)
    }
}

/// The parent's side. The caller makes sure that only one thread at a time uses a slot.
impl Slot {
    /// Waits until a thread of the child serves the slot. `alive` is called now and then; if it returns an error, the
    /// wait ends with that error.
    pub fn wait_until_served(&self, mut alive: impl FnMut() -> Result<(), Error>) -> Result<(), Error> {
        self.wait(|turn| turn != STARTING, Some(&mut alive))
    }

    /// Makes the thread that serves the slot do a job, and waits for the answer. The first bytes of the reply are
    /// copied to `into`.
    pub fn ask(
        &self,
        job: *mut (),
        arguments: [u64; 4],
        into: &mut [u8],
        mut alive: impl FnMut() -> Result<(), Error>,
    ) -> Result<u64, Error> {
        assert!(into.len() <= REPLY_BYTES);
        self.wait(|turn| turn == IDLE, Some(&mut alive))?;
        self.job.store(job, Ordering::Relaxed);
        self.arguments.iter().zip(arguments).for_each(|(to, from)| to.store(from, Ordering::Relaxed));
        self.turn(ASKED);
        self.wait(|turn| turn == ANSWERED, Some(&mut alive))?;
        let value = self.value.load(Ordering::Relaxed);
        // SAFETY: the child has answered and does not touch the slot until it is asked again.
        unsafe { ptr::copy_nonoverlapping(self.reply.get().cast::<u8>(), into.as_mut_ptr(), into.len()) };
        self.turn.store(IDLE, Ordering::Release);
        Ok(value)
    }
}

/// The child's side. One thread serves each slot.
impl Slot {
    /// Answers requests until the process is killed.
    pub fn serve(&self, mut answer: impl FnMut(*mut (), [u64; 4], &mut [u8]) -> u64) -> ! {
        self.turn(IDLE);
        loop {
            // Without `alive`, the wait cannot end with an error.
            let _ = self.wait(|turn| turn == ASKED, None);
            let arguments = self.arguments.each_ref().map(|argument| argument.load(Ordering::Relaxed));
            // SAFETY: it is our turn.
            let reply = unsafe { &mut *self.reply.get() };
            self.value.store(answer(self.job.load(Ordering::Relaxed), arguments, reply), Ordering::Relaxed);
            self.turn(ANSWERED);
        }
    }
}

type StillAlive<'a> = &'a mut dyn FnMut() -> Result<(), Error>;

impl Slot {
    fn turn(&self, turn: u32) {
        self.turn.store(turn, Ordering::Release);
        // SAFETY: wakes whoever sleeps on the word; takes no further arguments.
        unsafe { libc::syscall(libc::SYS_futex, self.turn.as_ptr(), libc::FUTEX_WAKE, i32::MAX) };
    }

    fn wait(&self, is_it: impl Fn(u32) -> bool, mut alive: Option<StillAlive>) -> Result<(), Error> {
        for _ in 0..LOOKS {
            if is_it(self.turn.load(Ordering::Acquire)) {
                return Ok(());
            }
            std::hint::spin_loop();
        }
        let patience = libc::timespec { tv_sec: 0, tv_nsec: PATIENCE.subsec_nanos().into() };
        let timeout = if alive.is_some() { &raw const patience } else { ptr::null() };
        loop {
            let turn = self.turn.load(Ordering::Acquire);
            if is_it(turn) {
                return Ok(());
            }
            // SAFETY: sleeps while the word is still `turn`, at most for `timeout`; both outlive the call.
            unsafe { libc::syscall(libc::SYS_futex, self.turn.as_ptr(), libc::FUTEX_WAIT, turn, timeout) };
            if let Some(alive) = &mut alive
                && !is_it(self.turn.load(Ordering::Acquire))
            {
                alive()?;
            }
        }
    }
}
