//! Processes and signals: the little that std does not offer.
#![allow(unsafe_code)]

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

pub use libc::{SIGCONT, SIGKILL, SIGSEGV, SIGSTOP, SIGTERM};

pub fn kill(pid: u32, signal: i32) -> std::io::Result<()> {
    // SAFETY: kill takes plain numbers and touches no memory of this process.
    match unsafe { libc::kill(pid as libc::pid_t, signal) } {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()),
    }
}

pub fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|m| m.uid() == 0)
}

static INTERRUPTED: AtomicBool = AtomicBool::new(false);

extern "C" fn note_interrupt(_signal: libc::c_int) {
    INTERRUPTED.store(true, Ordering::Relaxed);
}

/// Runs `cleanup` and ends the process when it is interrupted (Ctrl-C) or told to terminate.
pub fn on_interrupt(cleanup: impl FnOnce() + Send + 'static) {
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        // SAFETY: the handler only stores to an atomic, which is safe at any time.
        unsafe { libc::signal(signal, note_interrupt as extern "C" fn(libc::c_int) as libc::sighandler_t) };
    }
    std::thread::spawn(move || {
        while !INTERRUPTED.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(50));
        }
        cleanup();
        std::process::exit(130);
    });
}

/// CPU time that a process has used so far, user and system; `None` if there is no such process.
pub fn cpu_time(pid: u32) -> Option<Duration> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The command name, in parentheses, may hold anything; the fields are counted from behind it.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks: u64 = fields.get(11)?.parse::<u64>().ok()? + fields.get(12)?.parse::<u64>().ok()?;
    // Linux shows these times in hundredths of a second on every architecture.
    Some(Duration::from_millis(ticks * 10))
}

/// Resident memory of a process in bytes.
pub fn resident_bytes(pid: u32) -> Option<u64> {
    memory(pid, "VmRSS:")
}

/// Resident memory of a process that it shares with no file and no other process.
pub fn private_bytes(pid: u32) -> Option<u64> {
    memory(pid, "RssAnon:")
}

/// Address space of a process, whether there is memory behind it or not.
pub fn address_space(pid: u32) -> Option<u64> {
    memory(pid, "VmSize:")
}

fn memory(pid: u32, what: &str) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find(|l| l.starts_with(what))?;
    Some(line.split_whitespace().nth(1)?.parse::<u64>().ok()? * 1024)
}

pub fn open_descriptors(pid: u32) -> Option<usize> {
    Some(fs::read_dir(format!("/proc/{pid}/fd")).ok()?.count())
}

pub fn alive(pid: u32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat"))
        .is_ok_and(|stat| stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with('Z')))
}
