//! Figures that the system reports about processes and the machine.

use std::fs;

const KIB: u64 = 1024;

/// The number of this process's mappings.
pub fn mappings() -> usize {
    fs::read("/proc/self/maps").map_or(0, |maps| maps.iter().filter(|&&byte| byte == b'\n').count())
}

/// The memory of a process in bytes, including page tables. Of a page that several processes map, only this process's
/// share counts (PSS).
pub fn memory(pid: u32) -> u64 {
    let pages = field(&format!("/proc/{pid}/smaps_rollup"), "Pss:");
    let tables = field(&format!("/proc/{pid}/status"), "VmPTE:");
    pages.unwrap_or(0) + tables.unwrap_or(0)
}

/// Memory of this process and all its children.
pub fn memory_with_children() -> u64 {
    let own = std::process::id();
    memory(own) + children(own).into_iter().map(memory).sum::<u64>()
}

fn children(pid: u32) -> Vec<u32> {
    let is_child = |candidate: &u32| parent(*candidate) == Some(pid);
    let Ok(all) = fs::read_dir("/proc") else { return Vec::new() };
    all.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).filter(is_child).collect()
}

fn parent(pid: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The command's name, in parentheses, may contain any characters.
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}

/// Memory that is available without swapping.
pub fn available_memory() -> u64 {
    field("/proc/meminfo", "MemAvailable:").unwrap_or(0)
}

/// Memory of this process that huge pages back.
pub fn huge_pages() -> u64 {
    field("/proc/self/smaps_rollup", "AnonHugePages:").unwrap_or(0)
}

pub fn max_map_count() -> u64 {
    let count = fs::read_to_string("/proc/sys/vm/max_map_count").unwrap_or_default();
    count.trim().parse().unwrap_or(0)
}

pub fn huge_page_policy() -> String {
    fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled").unwrap_or_default().trim().to_owned()
}

pub fn load() -> f64 {
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    load.split_whitespace().next().and_then(|load| load.parse().ok()).unwrap_or(0.0)
}

/// The CPU time that all processes have used so far, and the CPU time that was available, in hundredths of a second.
pub fn cpu_ticks() -> (u64, u64) {
    let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
    let numbers = stat.lines().next().unwrap_or_default().split_whitespace().skip(1).take(8);
    let all: Vec<u64> = numbers.filter_map(|number| number.parse().ok()).collect();
    let idle = all.get(3).unwrap_or(&0) + all.get(4).unwrap_or(&0);
    let sum = all.iter().sum::<u64>();
    (sum - idle, sum)
}

/// CPU time of this process and the children it has waited for, in hundredths of a second.
pub fn own_cpu_ticks() -> u64 {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace();
    fields.skip(11).take(4).filter_map(|number| number.parse::<u64>().ok()).sum()
}

/// The value of a field in bytes, from a file with lines like "Name: 12 kB".
fn field(path: &str, name: &str) -> Option<u64> {
    let text = fs::read_to_string(path).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    Some(line.split_whitespace().next()?.parse::<u64>().ok()? * KIB)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_there() {
        assert!(mappings() > 5);
        assert!(memory_with_children() > KIB);
        assert!(parent(std::process::id()).is_some());
    }
}
