//! The text of uuids.

pub const ROOM: usize = 36;

pub fn text(bytes: &[u8; 16], out: &mut [u8]) -> usize {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut end = 0;
    for (at, byte) in bytes.iter().enumerate() {
        if matches!(at, 4 | 6 | 8 | 10) {
            out[end] = b'-';
            end += 1;
        }
        out[end] = DIGITS[usize::from(byte >> 4)];
        out[end + 1] = DIGITS[usize::from(byte & 15)];
        end += 2;
    }
    end
}

#[cfg(test)]
mod tests {
    #[test]
    fn lower_case_in_five_groups() {
        let mut out = [0; super::ROOM];
        let bytes = 0xA0EE_BC99_9C0B_4EF8_BB6D_6BB9_BD38_0A11u128.to_be_bytes();
        assert_eq!(super::text(&bytes, &mut out), super::ROOM);
        assert_eq!(&out, b"a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11");
    }
}
