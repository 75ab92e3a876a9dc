//! A ring of bytes with one producer and one consumer, in a memfd that two processes map.
//!
//! ```text
//!   page 0: head (written by the producer), tail (by the consumer), wake word, sleeping flag
//!   then:   capacity bytes, a power of two; byte p of the stream lies at p % capacity
//! ```
//!
//! `tail <= head <= tail + capacity`. The bytes in `[tail, head)` belong to the consumer, all others to the producer.
//! The ring carries a stream of bytes, like a pipe that can be polled without a system call, so a message may be longer
//! than the ring. The consumer sleeps on a futex, on which other threads of its own process may also wake it
//! ([`Waker`]).

#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
use std::time::Duration;

const HEADER_BYTES: usize = 4096;
const MAGIC: u64 = u64::from_le_bytes(*b"ankrring");

#[repr(C)]
struct Header {
    magic: AtomicU64,
    version: AtomicU64,
    capacity: AtomicU64,
    _pad0: [u64; 5],
    head: AtomicU64,
    _pad1: [u64; 7],
    tail: AtomicU64,
    _pad2: [u64; 7],
    wake: AtomicU32,
    sleeping: AtomicU32,
}

struct Mapping {
    base: *mut u8,
    capacity: usize,
}

// SAFETY: the mapping is plain shared memory; access to it is ordered by the head and tail protocol above.
unsafe impl Send for Mapping {}
// SAFETY: as above; `&Mapping` alone only gives out atomics.
unsafe impl Sync for Mapping {}

impl Mapping {
    fn map(fd: &OwnedFd, capacity: usize) -> io::Result<Mapping> {
        // SAFETY: a fresh shared mapping of a descriptor that we own; the result is checked.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                HEADER_BYTES + capacity,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                fd.as_raw_fd(),
                0,
            )
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Mapping { base: base.cast(), capacity })
    }

    fn header(&self) -> &Header {
        // SAFETY: page-aligned, at least a page long, all-zero is a valid Header, and only atomics are touched.
        unsafe { &*self.base.cast::<Header>() }
    }

    fn data(&self) -> *mut u8 {
        // SAFETY: the mapping is HEADER_BYTES + capacity long.
        unsafe { self.base.add(HEADER_BYTES) }
    }

    fn wake(&self) {
        let header = self.header();
        header.wake.fetch_add(1, Ordering::SeqCst);
        // SAFETY: the word lives as long as the mapping; waking has no other effect.
        unsafe { libc::syscall(libc::SYS_futex, header.wake.as_ptr(), libc::FUTEX_WAKE, 1) };
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: mapped in `map` with this length; nothing borrows from it any more.
        unsafe { libc::munmap(self.base.cast(), HEADER_BYTES + self.capacity) };
    }
}

/// The writing end.
pub struct Producer {
    map: Mapping,
    head: u64,
}

impl Producer {
    /// Creates a ring. Returns the producer, and a descriptor (close-on-exec) with which another process opens the
    /// consumer.
    pub fn create(capacity: usize) -> io::Result<(Producer, OwnedFd)> {
        assert!(capacity.is_power_of_two() && capacity >= 4096, "capacity must be a power of two");
        // SAFETY: a constant name; the result is checked.
        let fd = unsafe { libc::memfd_create(c"pg_anker ring".as_ptr(), libc::MFD_CLOEXEC) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: just created, owned by nobody else.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        let file = File::from(fd.try_clone()?);
        file.set_len((HEADER_BYTES + capacity) as u64)?;
        let map = Mapping::map(&fd, capacity)?;
        map.header().capacity.store(capacity as u64, Ordering::Relaxed);
        map.header().version.store(crate::VERSION, Ordering::Relaxed);
        map.header().magic.store(MAGIC, Ordering::Release);
        Ok((Producer { map, head: 0 }, fd))
    }

    /// Writes as many of the bytes as there is room for, and wakes the consumer. Returns the number of bytes written.
    pub fn write(&mut self, bytes: &[u8]) -> usize {
        let header = self.map.header();
        let used = self.head - header.tail.load(Ordering::Acquire);
        let room = self.map.capacity - used as usize;
        let n = room.min(bytes.len());
        let at = self.head as usize & (self.map.capacity - 1);
        let first = n.min(self.map.capacity - at);
        // SAFETY: `[head, head + n)` is ours until head is published; both pieces lie inside the data area.
        unsafe {
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.map.data().add(at), first);
            std::ptr::copy_nonoverlapping(bytes.as_ptr().add(first), self.map.data(), n - first);
        }
        self.head += n as u64;
        header.head.store(self.head, Ordering::Release);
        // Both sides have a fence before they read the other side's word. So either the consumer sees the new head
        // before it sleeps, or this thread sees that the consumer sleeps.
        fence(Ordering::SeqCst);
        if n > 0 && header.sleeping.load(Ordering::Relaxed) != 0 {
            self.map.wake();
        }
        n
    }

    /// The number of bytes that were written, but that the consumer has not read yet.
    pub fn backlog(&self) -> usize {
        (self.head - self.map.header().tail.load(Ordering::Acquire)) as usize
    }

    pub fn capacity(&self) -> usize {
        self.map.capacity
    }
}

/// The reading end.
pub struct Consumer {
    map: Arc<Mapping>,
    tail: u64,
}

/// Wakes a sleeping [`Consumer`] from another thread.
#[derive(Clone)]
pub struct Waker {
    map: Arc<Mapping>,
}

impl Waker {
    pub fn wake(&self) {
        self.map.wake();
    }
}

/// The value that the wake word had before the consumer looked for work; see [`Consumer::wait`].
#[derive(Clone, Copy)]
pub struct Ticket(u32);

impl Consumer {
    pub fn open(fd: OwnedFd) -> crate::Result<Consumer> {
        let length = File::from(fd.try_clone()?).metadata()?.len() as usize;
        if length < HEADER_BYTES + 4096 {
            return Err(crate::ProtocolError::Truncated);
        }
        let map = Mapping::map(&fd, length - HEADER_BYTES)?;
        let header = map.header();
        if header.magic.load(Ordering::Acquire) != MAGIC
            || header.capacity.load(Ordering::Relaxed) as usize != map.capacity
        {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "not a ring of pg_anker").into());
        }
        if header.version.load(Ordering::Relaxed) != crate::VERSION {
            return Err(crate::ProtocolError::Version);
        }
        Ok(Consumer { tail: header.tail.load(Ordering::Relaxed), map: Arc::new(map) })
    }

    pub fn waker(&self) -> Waker {
        Waker { map: self.map.clone() }
    }

    /// Reads up to `limit` bytes and appends them to `out`. Returns their number.
    pub fn read(&mut self, out: &mut Vec<u8>, limit: usize) -> usize {
        let header = self.map.header();
        let available = (header.head.load(Ordering::Acquire) - self.tail) as usize;
        let n = available.min(limit);
        let at = self.tail as usize & (self.map.capacity - 1);
        let first = n.min(self.map.capacity - at);
        // SAFETY: `[tail, tail + n)` was published by the producer, who does not touch it until tail is published.
        unsafe {
            out.extend_from_slice(std::slice::from_raw_parts(self.map.data().add(at), first));
            out.extend_from_slice(std::slice::from_raw_parts(self.map.data(), n - first));
        }
        self.tail += n as u64;
        header.tail.store(self.tail, Ordering::Release);
        n
    }

    /// The number of bytes that this consumer has read since the beginning of the stream.
    pub fn taken(&self) -> u64 {
        self.tail
    }

    /// The number of bytes that the producer has written since the beginning of the stream.
    pub fn written(&self) -> u64 {
        self.map.header().head.load(Ordering::Acquire)
    }

    /// A ticket for [`Consumer::wait`]. Take it *before* looking for work, in the ring or in other queues.
    pub fn ticket(&self) -> Ticket {
        Ticket(self.map.header().wake.load(Ordering::SeqCst))
    }

    /// Sleeps until there are bytes to read, until another thread wakes the consumer, or until the timeout. It does not
    /// sleep if the consumer was woken after the ticket was taken.
    pub fn wait(&self, ticket: Ticket, timeout: Duration) {
        let header = self.map.header();
        header.sleeping.store(1, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        if header.head.load(Ordering::Acquire) == self.tail {
            let time = libc::timespec { tv_sec: timeout.as_secs() as _, tv_nsec: timeout.subsec_nanos() as _ };
            // SAFETY: the word lives as long as the mapping; the kernel compares it with the ticket before sleeping.
            unsafe { libc::syscall(libc::SYS_futex, header.wake.as_ptr(), libc::FUTEX_WAIT, ticket.0, &time) };
        }
        header.sleeping.store(0, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_longer_than_the_ring_arrives_in_order() {
        let (mut producer, fd) = Producer::create(4096).unwrap();
        let mut consumer = Consumer::open(fd).unwrap();
        let sent: Vec<u8> = (0..1_000_003u32).map(|i| (i.wrapping_mul(2654435761) >> 24) as u8).collect();
        let expected = sent.clone();
        let writer = std::thread::spawn(move || {
            let mut rest = &sent[..];
            let mut step = 1;
            while !rest.is_empty() {
                step = step * 7 % 5003;
                let n = producer.write(&rest[..step.min(rest.len())]);
                rest = &rest[n..];
                if n == 0 {
                    std::thread::yield_now();
                }
            }
            producer
        });
        let mut got = Vec::new();
        while got.len() < expected.len() {
            let ticket = consumer.ticket();
            if consumer.read(&mut got, 777) == 0 {
                consumer.wait(ticket, Duration::from_secs(5));
            }
        }
        assert!(got == expected);
        assert_eq!(writer.join().unwrap().backlog(), 0);
    }

    #[test]
    fn a_waker_ends_the_wait_even_if_it_came_first() {
        let (_producer, fd) = Producer::create(4096).unwrap();
        let consumer = Consumer::open(fd).unwrap();
        let ticket = consumer.ticket();
        consumer.waker().wake();
        let start = std::time::Instant::now();
        consumer.wait(ticket, Duration::from_secs(30));
        assert!(start.elapsed() < Duration::from_secs(20));
    }

    #[test]
    fn strangers_are_refused() {
        let file = tempfile_of(8192);
        assert!(Consumer::open(file).is_err());
    }

    fn tempfile_of(length: u64) -> OwnedFd {
        // SAFETY: a constant name; the result is checked by the assertion.
        let fd = unsafe { libc::memfd_create(c"stranger".as_ptr(), libc::MFD_CLOEXEC) };
        assert!(fd >= 0);
        // SAFETY: just created, owned by nobody else.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        File::from(fd.try_clone().unwrap()).set_len(length).unwrap();
        fd
    }
}
