//! Random values for generated rows, and COPY of rows into a table.

use std::io::Write as _;

use postgres::Client;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::Result;

/// Runs `statement`, a COPY FROM STDIN. `write` turns each item of `given` into a line.
pub fn copy<T>(
    client: &mut Client,
    statement: &str,
    given: impl IntoIterator<Item = T>,
    mut write: impl FnMut(&mut String, T) -> std::fmt::Result,
) -> Result<()> {
    const BUFFER: usize = 256 << 10;
    let mut writer = client.copy_in(statement)?;
    let mut buffer = String::with_capacity(2 * BUFFER);
    for one in given {
        write(&mut buffer, one)?;
        if buffer.len() >= BUFFER {
            writer.write_all(buffer.as_bytes())?;
            buffer.clear();
        }
    }
    writer.write_all(buffer.as_bytes())?;
    writer.finish()?;
    Ok(())
}

/// Random values, the same ones for the same seed.
pub struct Rows {
    pub random: StdRng,
}

impl Rows {
    pub fn seeded(seed: u64) -> Rows {
        Rows { random: StdRng::seed_from_u64(seed) }
    }

    pub fn between(&mut self, low: u32, high: u32) -> u32 {
        self.random.random_range(low..=high)
    }

    pub fn money(&mut self, low: f64, high: f64) -> String {
        format!("{:.2}", self.random.random_range(low..=high))
    }

    pub fn fraction(&mut self, low: u32, high: u32) -> String {
        format!("0.{:04}", self.between(low, high))
    }

    pub fn text(&mut self, shortest: usize, longest: usize) -> String {
        const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789 .";
        let length = self.random.random_range(shortest..=longest);
        (0..length).map(|_| char::from(LETTERS[self.random.random_range(0..64)])).collect()
    }

    pub fn digits(&mut self, length: usize) -> String {
        (0..length).map(|_| char::from(b'0' + self.random.random_range(0..10u8))).collect()
    }

    pub fn address(&mut self) -> String {
        let streets = [self.text(10, 20), self.text(10, 20), self.text(10, 20)].join("\t");
        format!("{streets}\t{}\t{}11111", self.text(2, 2), self.digits(4))
    }

    pub fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.random.random_range(0..all.len())]
    }

    /// TPC-C's column "data": one text in ten contains "original".
    pub fn data(&mut self) -> String {
        let text = self.text(26, 42);
        if self.between(1, 10) == 1 { format!("{text}ORIGINAL") } else { text }
    }
}
