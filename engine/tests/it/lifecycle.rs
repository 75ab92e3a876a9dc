//! The engine's start and end, and its reaction to requests that it does not understand.

#![allow(unsafe_code)]

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::time::Instant;

use protocol::change::StreamMessage;
use protocol::control::{Settings, ToWorker};
use protocol::env;
use protocol::frame::{self, Kind};
use protocol::request::{Hello, Limits, QueryRequest, Refusal, Request};
use protocol::ring::Producer;

use crate::accounts::{self, account};
use crate::client::{Client, request};
use crate::worker::{PATIENCE, Worker};

#[test]
fn it_ends_with_the_control_channel() {
    let mut worker = Worker::start(&Settings::default());
    worker.mirror(1, 1, (0..1000).map(account));
    worker.hang_up();
    assert_eq!(worker.wait_for_exit().code(), Some(0));
}

#[test]
fn it_dies_with_its_parent() {
    // The kernel sends the signal when the *thread* that started the engine ends.
    let mut worker = std::thread::spawn(|| Worker::start(&Settings::default())).join().unwrap();
    assert_eq!(worker.wait_for_exit().signal(), Some(9));
}

#[test]
fn signals_are_those_of_a_process_of_its_own() {
    let mut worker = Worker::start_with_blocked_signals();
    worker.event();
    let pid = worker.pid();
    let mask = |name: &str| {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let line = status.lines().find(|l| l.starts_with(name)).unwrap().to_owned();
        u64::from_str_radix(line.split_whitespace().nth(1).unwrap(), 16).unwrap()
    };
    let bit = |signal: i32| 1u64 << (signal - 1);
    // For a moment, glibc blocks all signals of a thread that starts another one.
    let start = Instant::now();
    while mask("SigBlk") != 0 {
        assert!(start.elapsed() < PATIENCE, "blocked: {:x}", mask("SigBlk"));
    }
    // Only ordinary signals are compared, because glibc hides two of the real-time signals.
    assert_eq!(mask("SigIgn") & (bit(32) - 1), bit(libc::SIGPIPE) | bit(libc::SIGINT) | bit(libc::SIGHUP));
    worker.signal(libc::SIGINT);
    worker.client().status();
    worker.signal(libc::SIGTERM);
    assert_eq!(worker.wait_for_exit().signal(), Some(libc::SIGTERM));
}

#[test]
fn the_setting_says_how_columns_are_snapshotted() {
    for mechanism in ["auto", "epochs", "frames", "physical", "rewired", "scoot"] {
        let mut worker = Worker::start(&Settings { mechanism: mechanism.into(), ..Settings::default() });
        worker.mirror(1, 1, (0..1000).map(account));
        let wanted = if mechanism == "auto" { "epochs" } else { mechanism };
        assert_eq!(worker.client().status().mechanism, wanted);
    }
}

#[test]
fn a_mechanism_that_is_not_there_is_its_only_word() {
    let settings = Settings { mechanism: "magic".into(), ..Settings::default() };
    let mut worker = Worker::start_raw(&settings.to_text(), |_| {});
    let reason = "no snapshot mechanism is called \"magic\"".into();
    assert_eq!(worker.event(), ToWorker::NoMechanism { name: "magic".into(), reason });
    // The worker hangs up only after it has read the message.
    worker.hang_up();
    assert_eq!(worker.wait_for_exit().code(), Some(0));
}

#[test]
fn it_stands_in_for_the_server_when_memory_runs_out() {
    let worker = Worker::start(&Settings::default());
    let score: i32 =
        fs::read_to_string(format!("/proc/{}/oom_score_adj", worker.pid())).unwrap().trim().parse().unwrap();
    assert!(score >= 800);
}

#[test]
fn the_socket_is_the_owners_and_replaces_a_stale_one() {
    let mut worker = Worker::start_raw(&Settings::default().to_text(), |command| {
        let dir = command.get_current_dir().unwrap();
        drop(UnixListener::bind(dir.join("engine.sock")).unwrap());
    });
    worker.event();
    worker.client().status();
    let mode = fs::metadata(worker.socket()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn what_it_cannot_start_with_ends_it() {
    let wrong: [fn(&mut std::process::Command); 5] = [
        |c| {
            c.env(env::RING_FD, "77");
        },
        |c| {
            c.env_remove(env::CONTROL_FD);
        },
        |c| {
            c.env(env::SETTINGS, "speed=1");
        },
        |c| {
            c.env(env::SOCKET, "missing/engine.sock");
        },
        |c| fs::write(c.get_current_dir().unwrap().join("engine.sock"), "not a socket").unwrap(),
    ];
    for prepare in wrong {
        let mut worker = Worker::start_raw(&Settings::default().to_text(), prepare);
        assert_eq!(worker.wait_for_exit().code(), Some(1));
    }
}

#[test]
fn a_stream_that_is_not_understood_ends_it() {
    for bytes in [&[1, 0, 0, 0, 99][..], &[255; 64]] {
        let mut worker = Worker::start(&Settings::default());
        worker.send_bytes(bytes);
        assert_eq!(worker.wait_for_exit().code(), Some(1));
    }
    let mut worker = Worker::start(&Settings::default());
    worker.send(&[StreamMessage::Insert { relid: 1, row: b"out of a transaction" }]);
    assert_eq!(worker.wait_for_exit().code(), Some(1));
}

#[test]
fn another_version_is_refused() {
    let worker = Worker::start(&Settings::default());
    let mut client = Client::connect_raw(&worker.socket());
    client.send(Kind::Hello, &Hello { version: !protocol::VERSION });
    assert_eq!(client.refusal(), Refusal::Version);
    assert_eq!(client.receive(&mut Vec::new()), None);
}

#[test]
fn a_worker_of_another_build_is_greeted_all_the_same() {
    // The worker finds the difference in the greeting, and says what to do. An engine that only ended would tell it
    // nothing.
    let (_ring, fd) = Producer::create(1 << 16).unwrap();
    File::from(fd.try_clone().unwrap()).write_all_at(&(!protocol::VERSION).to_ne_bytes(), 8).unwrap();
    let ring = fd.as_raw_fd();
    let mut worker = Worker::start_raw("unknown=1", |command| {
        command.env(env::RING_FD, ring.to_string());
        // SAFETY: fcntl may be called between fork and exec; the descriptor is open until after the spawn.
        unsafe {
            command.pre_exec(move || match libc::fcntl(ring, libc::F_SETFD, 0) {
                0 => Ok(()),
                _ => Err(io::Error::last_os_error()),
            });
        }
    });
    assert_eq!(worker.event(), ToWorker::Hello { version: protocol::VERSION, pid: worker.pid() });
    worker.hang_up();
    assert_eq!(worker.wait_for_exit().code(), Some(0));
}

#[test]
fn malformed_frames_cost_their_connection_only() {
    let mut worker = Worker::start(&Settings::default());
    worker.mirror(1, 1, (0..10).map(account));
    let greeting = frame::encode(Kind::Hello, &Hello { version: protocol::VERSION });
    let request = frame::encode(Kind::Request, &Request::Status);
    let wires: [Vec<u8>; 7] = [
        vec![0xff; 100],
        request.clone(),
        [&greeting[..], &[0, 0, 0, 0, 77]].concat(),
        [&greeting[..], &[255, 255, 255, 255, Kind::Request as u8]].concat(),
        [&greeting[..], &frame::encode_raw(Kind::Request, &[200; 40])].concat(),
        [&greeting[..], &frame::encode_raw(Kind::Rows, b"")].concat(),
        [&greeting[..], &greeting[..]].concat(),
    ];
    for wire in wires {
        let mut client = Client::connect_raw(&worker.socket());
        client.stream.write_all(&wire).unwrap();
        assert!(matches!(client.refusal(), Refusal::Protocol { .. }), "{wire:?}");
        // The connection ends, or is reset if the engine closed it with unread bytes.
        let mut rest = Vec::new();
        assert!(client.stream.read_to_end(&mut rest).map_or(true, |n| n == 0));
    }
    // Sends frames that are cut short, and pseudo-random bytes.
    let mut seed = 7u64;
    for round in 0..200 {
        let mut client = Client::connect_raw(&worker.socket());
        let mut wire = if round % 2 == 0 { greeting.clone() } else { Vec::new() };
        wire.extend((0..round).map(|_| {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (seed >> 56) as u8
        }));
        client.stream.write_all(&wire).unwrap();
    }
    assert_eq!(worker.client().status().tables[0].rows, 10);
}

#[test]
fn threads_of_queries_stand_back_and_no_others() {
    const STEPS: i32 = 7;
    const MORE: i32 = 12;
    let mut worker = Worker::start(&Settings { query_nice: STEPS as u32, ..Settings::default() });
    worker.mirror(1, 1, (0..10).map(account));
    let now = worker.now();
    let mut asks = worker.client();
    let mut looks = worker.client();
    let nice_of_threads = || -> Vec<(String, i32)> {
        let tasks = fs::read_dir(format!("/proc/{}/task", worker.pid())).unwrap();
        let stats = tasks.filter_map(|task| fs::read_to_string(task.unwrap().path().join("stat")).ok());
        let parts = stats.map(|stat| {
            let (name, rest) = stat.split_once('(').unwrap().1.rsplit_once(')').unwrap();
            (name.to_owned(), rest.split_whitespace().nth(16).unwrap().parse().unwrap())
        });
        parts.collect()
    };
    looks.status();
    // A query may ask for a higher nice value, but not for a lower one than the engine's setting.
    let query = |nice: u32| {
        let limits = Limits { nice, ..Limits::default() };
        QueryRequest { limits, ..request(accounts::totals(1, false), now.clone()) }
    };
    assert_eq!(asks.rows(&query(2)).ints(1), [9]);
    let mut yields = worker.client();
    assert_eq!(yields.rows(&query(MORE as u32)).ints(1), [9]);
    // The connection's thread cannot return to the usual value, so the connection has ended.
    assert_eq!(yields.receive(&mut Vec::new()), None);
    let threads = nice_of_threads();
    let own = threads[0].1;
    let of = |name: &str, nice: i32| threads.iter().filter(|thread| **thread == (name.to_owned(), nice)).count();
    assert_eq!(of("anker query", own + STEPS), 2, "{threads:?}");
    assert_eq!(of("anker query", own + MORE), 2, "{threads:?}");
    // The thread of the loader's connection may still exist, too.
    assert!(of("anker client", own + STEPS) == 1 && of("anker client", own) >= 1, "{threads:?}");
    assert_eq!(of("anker accept", own), 1, "{threads:?}");
}
