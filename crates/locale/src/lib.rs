//! How the C library orders text, and changes its case, in a locale: what PostgreSQL asks it for collations of its
//! provider "libc", on the same machine.
//!
//! PostgreSQL compares with `strcoll_l`, and texts that are equal to it by their bytes. Here a text gets a *key*, and keys
//! are compared by their bytes: what `strxfrm_l` makes of the text, a zero, and the text itself. The C library promises that
//! both give the same order; old ones did not keep that, so it is tried when a locale is first used ([`Locale::named`]).

#![allow(unsafe_code)]

use std::collections::HashMap;
use std::ffi::{CString, c_char, c_int};
use std::sync::{Mutex, OnceLock};

unsafe extern "C" {
    fn strxfrm_l(to: *mut c_char, from: *const c_char, room: usize, locale: libc::locale_t) -> usize;
    fn strcoll_l(a: *const c_char, b: *const c_char, locale: libc::locale_t) -> c_int;
    fn towupper_l(c: u32, locale: libc::locale_t) -> u32;
    fn towlower_l(c: u32, locale: libc::locale_t) -> u32;
}

/// A locale for text in UTF-8, which stays as long as the process.
pub struct Locale(libc::locale_t);

// SAFETY: nobody changes a locale, and the functions that take one do not write to it.
unsafe impl Send for Locale {}
// SAFETY: as above.
unsafe impl Sync for Locale {}

/// Room for what the C library reads and writes.
#[derive(Default)]
pub struct Scratch {
    text: Vec<u8>,
    key: Vec<u8>,
}

impl Locale {
    /// `None`: there is no such locale on this machine, it is not for UTF-8, or its two ways to order text disagree.
    pub fn named(name: &str) -> Option<&'static Locale> {
        static KNOWN: OnceLock<Mutex<HashMap<String, Option<&'static Locale>>>> = OnceLock::new();
        let mut known = KNOWN.get_or_init(Mutex::default).lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let load = || Locale::load(name).filter(Locale::keeps_its_promise).map(|locale| &*Box::leak(Box::new(locale)));
        *known.entry(name.to_owned()).or_insert_with(load)
    }

    fn load(name: &str) -> Option<Locale> {
        let name = CString::new(name).ok()?;
        // SAFETY: a C string; null is no locale. What nl_langinfo_l returns stays as long as the locale.
        unsafe {
            let locale =
                libc::newlocale(libc::LC_COLLATE_MASK | libc::LC_CTYPE_MASK, name.as_ptr(), std::ptr::null_mut());
            if locale.is_null() {
                return None;
            }
            let encoding = std::ffi::CStr::from_ptr(libc::nl_langinfo_l(libc::CODESET, locale));
            (encoding == c"UTF-8").then_some(Locale(locale))
        }
    }

    /// Appends a text's key, which holds no text before that.
    pub fn push_key(&self, text: &str, key: &mut String, scratch: &mut Scratch) {
        let Scratch { text: from, key: to } = scratch;
        from.clear();
        // Texts of PostgreSQL have no zero.
        from.extend(text.bytes().take_while(|byte| *byte != 0).chain([0]));
        if to.is_empty() {
            to.resize(256, 0);
        }
        let length = loop {
            // SAFETY: a C string, and as much room as is said; what does not fit is not written whole.
            let length = unsafe { strxfrm_l(to.as_mut_ptr().cast(), from.as_ptr().cast::<c_char>(), to.len(), self.0) };
            if length < to.len() {
                break length;
            }
            to.resize(length + 1, 0);
        };
        // A character for each byte: that keeps their order.
        key.extend(to[..length].iter().map(|byte| char::from(*byte)));
        key.push('\0');
        key.push_str(text);
    }

    pub fn key(&self, text: &str) -> String {
        let mut key = String::new();
        self.push_key(text, &mut key, &mut Scratch::default());
        key
    }

    pub fn upper(&self, c: char) -> char {
        // SAFETY: any number may be asked.
        char::from_u32(unsafe { towupper_l(c.into(), self.0) }).unwrap_or(c)
    }

    pub fn lower(&self, c: char) -> char {
        // SAFETY: as above.
        char::from_u32(unsafe { towlower_l(c.into(), self.0) }).unwrap_or(c)
    }

    /// As PostgreSQL compares.
    fn compare(&self, a: &CString, b: &CString) -> std::cmp::Ordering {
        // SAFETY: two C strings.
        unsafe { strcoll_l(a.as_ptr(), b.as_ptr(), self.0) }.cmp(&0).then_with(|| a.cmp(b))
    }

    /// Whether the keys of some thousand texts have the texts' order.
    fn keeps_its_promise(&self) -> bool {
        let mut texts: Vec<(String, CString)> =
            samples().filter_map(|text| Some((self.key(&text), CString::new(text).ok()?))).collect();
        texts.sort();
        texts.windows(2).all(|pair| self.compare(&pair[0].1, &pair[1].1).is_le())
    }
}

/// The text that a key is of.
pub fn text_of(key: &str) -> &str {
    key.find('\0').map_or(key, |end| &key[end + 1..])
}

/// Texts of letters of either case, with and without accents, digits, blanks and signs, of several alphabets.
fn samples() -> impl Iterator<Item = String> {
    const LETTERS: &str = "aAbBzZäÄéÉñßøœıİčČłŁαΩжЯאあ中0179 -_.,'\"@#$%&()+/:<=>[]{}~\t\u{301}\u{200b}";
    let letters: Vec<char> = LETTERS.chars().collect();
    let mut seed = 0x2545_f491_4f6c_dd1d_u64;
    (0..2000).map(move |number| {
        let mut next = || {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            letters[(seed % letters.len() as u64) as usize]
        };
        (0..number % 7).map(|_| next()).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_decide_where_nothing_else_does() {
        let locale = Locale::named("C.UTF-8").expect("a locale that every machine has");
        let mut texts = ["b", "", "a", "ab", "Z", "é", "a b", "中"].map(|text| (locale.key(text), text));
        texts.sort();
        assert!(texts.iter().all(|(key, text)| text_of(key) == *text));
        assert_eq!(texts.map(|(_, text)| text), ["", "Z", "a", "a b", "ab", "b", "é", "中"]);
        assert_eq!((locale.upper('ä'), locale.lower('Ä'), locale.upper('ß')), ('Ä', 'ä', 'ß'));
    }

    #[test]
    fn what_is_not_there_or_not_utf8_is_none() {
        assert!(Locale::named("xx_XX.UTF-8").is_none());
        assert!(Locale::named("C").is_none());
        assert!(Locale::named("").is_none() || std::env::var_os("LANG").is_some());
        assert!(Locale::named("with\0zero").is_none());
    }

    #[test]
    fn long_texts_have_keys() {
        let locale = Locale::named("C.UTF-8").expect("a locale that every machine has");
        let long = "long ".repeat(10_000);
        assert_eq!(text_of(&locale.key(&long)), long);
        assert!(locale.key(&long) < locale.key(&(long.clone() + "a")));
    }
}
