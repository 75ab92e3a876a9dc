//! CRC32C, with the processor's instruction where there is one.
//!
//! The instruction takes eight bytes, and its result comes after three cycles. So three parts of a block are computed
//! at the same time. Their checksums are then put together: appending zeros to data is a linear map of its checksum,
//! and the table `SHIFT` has that map for the length of a part.

/// The polynomial, with its bits in reverse order.
const POLYNOMIAL: u32 = 0x82f6_3b78;
/// Tables for eight bytes at a time: `TABLES[k][b]` is the checksum of the byte `b`, followed by `k` zeros.
static TABLES: [[u32; 256]; 8] = tables();
const fn tables() -> [[u32; 256]; 8] {
    let mut tables = [[0; 256]; 8];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 == 1 { crc >> 1 ^ POLYNOMIAL } else { crc >> 1 };
            bit += 1;
        }
        tables[0][byte] = crc;
        byte += 1;
    }
    let mut byte = 0;
    while byte < 256 {
        let mut k = 1;
        while k < 8 {
            let before = tables[k - 1][byte];
            tables[k][byte] = before >> 8 ^ tables[0][(before & 0xff) as usize];
            k += 1;
        }
        byte += 1;
    }
    tables
}

/// The CRC32C of some bytes.
pub fn crc32c(bytes: &[u8]) -> u32 {
    !update(!0, bytes)
}

#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)]
fn update(crc: u32, bytes: &[u8]) -> u32 {
    if std::is_x86_feature_detected!("sse4.2") {
        // SAFETY: the processor has the instructions of SSE 4.2, as was just tested.
        unsafe { by_instruction::update(crc, bytes) }
    } else {
        update_by_tables(crc, bytes)
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn update(crc: u32, bytes: &[u8]) -> u32 {
    update_by_tables(crc, bytes)
}

fn update_by_tables(mut crc: u32, bytes: &[u8]) -> u32 {
    let (words, rest) = bytes.as_chunks::<8>();
    for word in words {
        let word = u64::from_le_bytes(*word) ^ u64::from(crc);
        let bytes = word.to_le_bytes().into_iter().zip(TABLES.iter().rev());
        crc = bytes.fold(0, |crc, (byte, table)| crc ^ table[usize::from(byte)]);
    }
    rest.iter().fold(crc, |crc, byte| crc >> 8 ^ TABLES[0][usize::from(crc as u8 ^ byte)])
}

#[cfg(target_arch = "x86_64")]
mod by_instruction {
    use std::arch::x86_64::{_mm_crc32_u8, _mm_crc32_u64};

    use crate::checksum::POLYNOMIAL;

    /// The length of each of the three parts of a block. It is a power of two and a multiple of 8.
    const PART: usize = 4096;

    /// For each byte of a checksum, what it contributes after another [`PART`] bytes of zeros.
    static SHIFT: [[u32; 256]; 4] = shift();

    /// The map that each of these 32 columns describes, applied to a checksum.
    const fn apply(map: &[u32; 32], crc: u32) -> u32 {
        let (mut sum, mut bit) = (0, 0);
        while bit < 32 {
            if crc >> bit & 1 == 1 {
                sum ^= map[bit];
            }
            bit += 1;
        }
        sum
    }

    const fn shift() -> [[u32; 256]; 4] {
        // The map for one zero bit, squared until it is the map for a whole part.
        let mut map = [0; 32];
        map[0] = POLYNOMIAL;
        let mut bit = 1;
        while bit < 32 {
            map[bit] = 1 << (bit - 1);
            bit += 1;
        }
        let mut bits = 1;
        while bits < 8 * PART {
            let mut squared = [0; 32];
            let mut bit = 0;
            while bit < 32 {
                squared[bit] = apply(&map, map[bit]);
                bit += 1;
            }
            map = squared;
            bits *= 2;
        }
        let mut shift = [[0; 256]; 4];
        let mut byte = 0;
        while byte < 256 {
            let mut at = 0;
            while at < 4 {
                shift[at][byte] = apply(&map, (byte as u32) << (8 * at));
                at += 1;
            }
            byte += 1;
        }
        shift
    }

    #[target_feature(enable = "sse4.2")]
    pub fn update(crc: u32, bytes: &[u8]) -> u32 {
        let shifted = |crc: u64| {
            let [a, b, c, d] = (crc as u32).to_le_bytes().map(usize::from);
            u64::from(SHIFT[0][a] ^ SHIFT[1][b] ^ SHIFT[2][c] ^ SHIFT[3][d])
        };
        let mut crc = u64::from(crc);
        let (blocks, rest) = bytes.as_chunks::<{ 3 * PART }>();
        for block in blocks {
            let words = block.as_chunks::<8>().0;
            let (first, others) = words.split_at(PART / 8);
            let (second, third) = others.split_at(PART / 8);
            let (mut b, mut c) = (0, 0);
            for ((first, second), third) in first.iter().zip(second).zip(third) {
                crc = _mm_crc32_u64(crc, u64::from_le_bytes(*first));
                b = _mm_crc32_u64(b, u64::from_le_bytes(*second));
                c = _mm_crc32_u64(c, u64::from_le_bytes(*third));
            }
            crc = shifted(shifted(crc) ^ b) ^ c;
        }
        let (words, rest) = rest.as_chunks::<8>();
        for word in words {
            crc = _mm_crc32_u64(crc, u64::from_le_bytes(*word));
        }
        rest.iter().fold(crc as u32, |crc, byte| _mm_crc32_u8(crc, *byte))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    #[test]
    fn checksums_are_those_of_the_standard() {
        // The examples of RFC 3720, B.4, and the usual check value.
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
        assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa);
        assert_eq!(crc32c(&[0xff; 32]), 0x62a8_ab43);
        assert_eq!(crc32c(&(0..32).collect::<Vec<u8>>()), 0x46dd_794e);
        assert_eq!(crc32c(&[]), 0);
    }

    #[test]
    fn both_ways_agree() {
        let bytes: Vec<u8> = (0..100_000u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
        for length in (0..300).chain([12_287, 12_288, 12_289, 24_600, bytes.len()]) {
            for from in [0, 1, 7] {
                let part = &bytes[from.min(length)..length];
                assert_eq!(update(!0, part), update_by_tables(!0, part), "{from} to {length}");
            }
        }
    }

    /// Prints the speed: `cargo test --release -p anker-checkpoint -- --ignored --nocapture speed`.
    #[test]
    #[ignore = "measures only"]
    fn speed() {
        let bytes = vec![7; 64 << 20];
        for (name, update) in [("the processor", update as fn(u32, &[u8]) -> u32), ("tables", update_by_tables)] {
            let before = Instant::now();
            let crc = update(!0, &bytes);
            let seconds = before.elapsed().as_secs_f64();
            println!("{name}: {:.1} GB/s ({crc:x})", bytes.len() as f64 / seconds / 1e9);
        }
    }
}
