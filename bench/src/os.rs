//! Processes and signals: calls of the operating system that std does not offer.
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

/// The width of the terminal, if standard output is one.
pub fn terminal_width() -> Option<usize> {
    let mut size = libc::winsize { ws_row: 0, ws_col: 0, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: the call writes a winsize to the place that it is given, which is one and lives through the call.
    let done = unsafe { libc::ioctl(libc::STDOUT_FILENO, libc::TIOCGWINSZ, &raw mut size) };
    (done == 0 && size.ws_col > 0).then_some(usize::from(size.ws_col))
}

/// Whether this is the kernel of kernel-patch/, which has vm_snapshot, and with it MREMAP_COW.
pub fn has_vm_snapshot() -> bool {
    const NUMBER: libc::c_long = 548;
    // SAFETY: a range of no bytes is refused before anything is looked at; a kernel without the call does nothing.
    let answer = unsafe { libc::syscall(NUMBER, std::ptr::null::<u8>(), 0_usize) };
    answer == -1 && std::io::Error::last_os_error().raw_os_error() == Some(libc::EINVAL)
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

/// The unit of CPU times in /proc. Linux uses hundredths of a second on every architecture.
const MS_PER_TICK: u64 = 10;

/// CPU time that a process has used so far, user and system; `None` if there is no such process.
pub fn cpu_time(pid: u32) -> Option<Duration> {
    Some(Duration::from_millis(Stat::read(pid)?.own_ticks * MS_PER_TICK))
}

/// CPU time of a process with only one thread, in nanoseconds if the kernel counts them.
pub fn cpu_time_of_thread(pid: u32) -> Option<Duration> {
    // The file's fields: nanoseconds on a processor, nanoseconds of waiting for one, number of time slices.
    let counted = fs::read_to_string(format!("/proc/{pid}/schedstat")).ok();
    let nanoseconds = counted.and_then(|counted| counted.split_ascii_whitespace().next()?.parse().ok());
    nanoseconds.map(Duration::from_nanos).or_else(|| cpu_time(pid))
}

/// CPU time of a process in nanoseconds, with the threads that have ended. `None` if there is no such process.
pub fn precise_cpu_time(pid: u32) -> Option<Duration> {
    let (mut clock, mut time) = (0, libc::timespec { tv_sec: 0, tv_nsec: 0 });
    // SAFETY: both results are local values, which the calls fill.
    let found = unsafe {
        libc::clock_getcpuclockid(i32::try_from(pid).ok()?, &mut clock) == 0
            && libc::clock_gettime(clock, &mut time) == 0
    };
    found.then(|| Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32))
}

/// CPU time of a process and all its descendants, including dead ones that were waited for.
pub fn cpu_time_of_tree(root: u32) -> Duration {
    let mut ticks = 0;
    let (mut all, mut tree) = (processes(), vec![root]);
    while let Some(pid) = tree.pop() {
        let of = |stat: &Stat| stat.pid == pid;
        ticks += all.iter().find(|stat| of(stat)).map_or(0, |stat| stat.own_ticks + stat.ticks_of_gone);
        tree.extend(all.iter().filter(|stat| stat.parent == pid).map(|stat| stat.pid));
        all.retain(|stat| !of(stat));
    }
    Duration::from_millis(ticks * MS_PER_TICK)
}

/// The time for which this virtual machine had work, but its host gave it no processor, added up over all processors.
/// On other machines it is 0.
pub fn stolen() -> Duration {
    let counted = fs::read_to_string("/proc/stat").unwrap_or_default();
    // The line's fields: "cpu", user, nice, system, idle, iowait, irq, softirq, steal.
    let ticks = counted.split_ascii_whitespace().nth(8).and_then(|ticks| ticks.parse::<u64>().ok());
    Duration::from_millis(ticks.unwrap_or(0) * MS_PER_TICK)
}

/// Child processes that still exist, including dead ones that nobody has waited for.
pub fn children(pid: u32) -> Vec<u32> {
    processes().iter().filter(|stat| stat.parent == pid).map(|stat| stat.pid).collect()
}

pub fn parent(pid: u32) -> Option<u32> {
    Stat::read(pid).map(|stat| stat.parent)
}

fn processes() -> Vec<Stat> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| Stat::read(entry.file_name().to_str()?.parse().ok()?)).collect()
}

/// A process's line in `/proc/<pid>/stat`.
struct Stat {
    pid: u32,
    parent: u32,
    own_ticks: u64,
    ticks_of_gone: u64,
}

impl Stat {
    fn read(pid: u32) -> Option<Stat> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The command's name, in parentheses, may contain any characters, so fields are counted from the last
        // parenthesis on.
        let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
        let ticks = |at: usize| -> Option<u64> {
            Some(fields.get(at)?.parse::<u64>().ok()? + fields.get(at + 1)?.parse::<u64>().ok()?)
        };
        Some(Stat { pid, parent: fields.get(1)?.parse().ok()?, own_ticks: ticks(11)?, ticks_of_gone: ticks(13)? })
    }
}

/// Resident memory of a process in bytes.
pub fn resident_bytes(pid: u32) -> Option<u64> {
    memory(pid, "VmRSS:")
}

/// Resident anonymous memory of a process, without pages of files and shared memory.
pub fn private_bytes(pid: u32) -> Option<u64> {
    memory(pid, "RssAnon:")
}

/// Size of a process's address space, including parts that take no memory.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_has_its_roots_time_and_more() {
        let pid = std::process::id();
        let own = cpu_time(pid).expect("this process is there");
        assert!(cpu_time_of_tree(pid) >= own);
        assert!(cpu_time_of_thread(pid).is_some() && cpu_time_of_thread(u32::MAX).is_none());
        assert_eq!(parent(pid), Some(std::os::unix::process::parent_id()));
        assert_eq!(cpu_time_of_tree(u32::MAX), Duration::ZERO);
    }
}
