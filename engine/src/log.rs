//! Writes lines for administrators to the server's log.

use std::io::Write;

use protocol::request::{Failure, FailureKind};

pub fn line(message: std::fmt::Arguments<'_>) {
    // `eprintln` would panic if the stream were closed.
    let _ = std::io::stderr().write_all(format!("pg_anker engine: {message}\n").as_bytes());
}

/// Makes each panic write one line to the log.
pub fn panics() {
    std::panic::set_hook(Box::new(|panic| {
        let thread = std::thread::current();
        let name = thread.name().unwrap_or("unnamed");
        let place = panic.location().map_or_else(String::new, |l| format!(" at {}:{}", l.file(), l.line()));
        line(format_args!("panic in thread {name:?}{place}: {}", message(panic.payload())));
    }));
}

/// A failure as the client is told about it. The details of a defect go to the log instead, because only administrators
/// can use them.
pub fn without_details(failure: Failure) -> Failure {
    if failure.kind != FailureKind::Internal {
        return failure;
    }
    line(format_args!("a query failed by a defect of pg_anker: {}", failure.message.replace('\n', " ")));
    Failure { kind: failure.kind, message: failure.kind.message().into() }
}

/// The message of a panic.
pub fn message(payload: &(dyn std::any::Any + Send)) -> &str {
    payload
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| payload.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message")
}
