//! Texts as integers. The order of the integers is the order of the texts' bytes, as far as the first bytes decide it.

/// The number of bytes, at the beginning of a text, on which its place depends.
pub const LENGTH: usize = 15;

/// The number of bits that hold the length of the text, limited to [`LENGTH`].
const LENGTH_BITS: u32 = 4;

/// The place of a text in the order, which is never negative. If one text is less than another, its place is not
/// greater. If two texts have the same place, they are equal, or agree in their first [`LENGTH`] bytes.
#[inline]
pub fn place(text: &[u8]) -> i128 {
    if let Some(first) = text.first_chunk() {
        return (u128::from_be_bytes(*first) >> 8 << LENGTH_BITS) as i128 | LENGTH as i128;
    }
    padded(text, 0, text.len().min(LENGTH))
}

/// The greatest place that a text with this beginning can have.
pub fn last_place(start: &[u8]) -> i128 {
    padded(start, u8::MAX, LENGTH)
}

/// The first bytes of a text, filled up with `padding`, followed by the length.
#[inline]
fn padded(text: &[u8], padding: u8, length: usize) -> i128 {
    let counted = text.len().min(LENGTH);
    let mut bytes = [padding; LENGTH + 1];
    bytes[0] = 0;
    bytes[1..=counted].copy_from_slice(&text[..counted]);
    i128::from_be_bytes(bytes) << LENGTH_BITS | length as i128
}

/// The bytes with which all texts at a place begin, and whether texts at that place may be longer than these bytes.
pub fn start(place: i128) -> (Vec<u8>, bool) {
    let length = (place as usize % (1 << LENGTH_BITS)).min(LENGTH);
    let bytes = (place >> LENGTH_BITS).to_be_bytes();
    (bytes[1..=length].to_vec(), length == LENGTH)
}

#[cfg(test)]
mod tests {
    use super::*;

    const IN_ORDER: [&str; 10] =
        ["", "\u{1}", "0123456789", "0123456789abcd", "0123456789abcde", "1", "a", "aa", "ä", "\u{10ffff}"];

    #[test]
    fn places_are_in_the_order_of_texts() {
        assert!(IN_ORDER.is_sorted());
        assert!(IN_ORDER.windows(2).all(|pair| place(pair[0].as_bytes()) < place(pair[1].as_bytes())));
        assert_eq!(place(b"0123456789abcdeX"), place(b"0123456789abcde"));
        assert_eq!(place(b"0123456789abcdeXY"), padded(b"0123456789abcde", 0, LENGTH));
        assert_eq!(place(&[0xff; 40]), last_place(&[]));
        // Byte strings may end in zeros.
        assert!(place(b"") < place(b"\0") && place(b"a") < place(b"a\0") && place(b"a\0") < place(b"a\0\0"));
        assert!(place(b"a\0\0") < place(b"a\x01") && place(b"") >= 0);
        assert!(place(&[u8::MAX; 20]) > place("\u{10ffff}".as_bytes()));
    }

    #[test]
    fn texts_that_begin_alike_lie_together() {
        for (start, text) in
            [("", "\u{10ffff}"), ("a", "a"), ("a", "a\u{ff}z"), ("0123456789abcdef", "0123456789abcdefg")]
        {
            let places = place(start.as_bytes())..=last_place(start.as_bytes());
            assert!(places.contains(&place(text.as_bytes())), "{text} begins with {start}");
        }
        assert!(last_place(b"a") < place(b"b"));
    }

    #[test]
    fn a_place_tells_how_its_texts_begin() {
        for text in IN_ORDER {
            assert_eq!(start(place(text.as_bytes())), (text.as_bytes().to_vec(), text.len() >= LENGTH));
        }
        assert_eq!(start(place(b"0123456789abcdefg")), (b"0123456789abcde".to_vec(), true));
        assert_eq!(start(place(b"\xff\0\0")), (b"\xff\0\0".to_vec(), false));
    }
}
