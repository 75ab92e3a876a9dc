//! Writes lines for administrators to the server's log.

use std::io::Write;

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

/// The message of a panic.
pub fn message(payload: &(dyn std::any::Any + Send)) -> &str {
    payload
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| payload.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message")
}
