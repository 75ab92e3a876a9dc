//! The C library's text order and case mapping in a locale. For collations of its provider "libc", PostgreSQL uses the
//! same functions, so on the same machine the results are equal.
//!
//! Texts are compared pairwise, as in PostgreSQL, and not by the keys of `strxfrm_l`. For some texts with several
//! characters that the locale ignores at first, these keys give another order (glibc 2.36: `$É` and `$>é` in cs_CZ).

#![allow(unsafe_code)]

use std::cmp::Ordering;
use std::collections::HashMap;
use std::ffi::{CStr, CString, c_char, c_int, c_ulong};
use std::sync::{Mutex, OnceLock};

unsafe extern "C" {
    fn strcoll_l(a: *const c_char, b: *const c_char, locale: libc::locale_t) -> c_int;
    fn towupper_l(c: u32, locale: libc::locale_t) -> u32;
    fn towlower_l(c: u32, locale: libc::locale_t) -> u32;
    fn wctype_l(name: *const c_char, locale: libc::locale_t) -> c_ulong;
    fn iswctype_l(c: u32, class: c_ulong, locale: libc::locale_t) -> c_int;
}

/// A locale for text in UTF-8. It is never freed.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct Locale(libc::locale_t);

// SAFETY: nobody changes a locale, and the functions that take one do not write to it.
unsafe impl Send for Locale {}
// SAFETY: as above.
unsafe impl Sync for Locale {}

/// Buffers for copies of texts with the final zero that the C library needs.
#[derive(Debug, Default)]
pub struct Scratch {
    left: Vec<u8>,
    right: Vec<u8>,
}

impl Locale {
    /// The locale with this name; `None` if it does not exist on this machine, or has another encoding than UTF-8.
    pub fn named(name: &str) -> Option<&'static Locale> {
        static KNOWN: OnceLock<Mutex<HashMap<String, Option<&'static Locale>>>> = OnceLock::new();
        let mut known = KNOWN.get_or_init(Mutex::default).lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let load = || Locale::load(name).map(|locale| &*Box::leak(Box::new(locale)));
        *known.entry(name.to_owned()).or_insert_with(load)
    }

    fn load(name: &str) -> Option<Locale> {
        let name = CString::new(name).ok()?;
        // SAFETY: the argument is a C string; a null result means that there is no such locale. A string that
        // nl_langinfo_l returns lives as long as the locale.
        unsafe {
            let locale =
                libc::newlocale(libc::LC_COLLATE_MASK | libc::LC_CTYPE_MASK, name.as_ptr(), std::ptr::null_mut());
            if locale.is_null() {
                return None;
            }
            let encoding = CStr::from_ptr(libc::nl_langinfo_l(libc::CODESET, locale));
            (encoding == c"UTF-8").then_some(Locale(locale))
        }
    }

    /// Compares two texts as PostgreSQL does. If the C library calls them equal, their bytes decide.
    pub fn compare(&self, left: &str, right: &str, scratch: &mut Scratch) -> Ordering {
        if left == right {
            return Ordering::Equal;
        }
        self.compare_terminated(terminated(left, &mut scratch.left), terminated(right, &mut scratch.right))
    }

    /// Like [`Locale::compare`], for texts that already end in a zero.
    pub fn compare_terminated(&self, left: &CStr, right: &CStr) -> Ordering {
        if left == right {
            return Ordering::Equal;
        }
        // SAFETY: two C strings.
        unsafe { strcoll_l(left.as_ptr(), right.as_ptr(), self.0) }.cmp(&0).then_with(|| left.cmp(right))
    }

    pub fn upper(&self, c: char) -> char {
        // SAFETY: any number may be asked.
        char::from_u32(unsafe { towupper_l(c.into(), self.0) }).unwrap_or(c)
    }

    pub fn lower(&self, c: char) -> char {
        // SAFETY: as above.
        char::from_u32(unsafe { towlower_l(c.into(), self.0) }).unwrap_or(c)
    }
}

impl Locale {
    /// Whether a character belongs to a class, for example `alpha`.
    pub fn is(&self, c: char, class: &CStr) -> bool {
        // SAFETY: the class is a C string, and any number may be asked; no character belongs to an unknown class.
        unsafe { iswctype_l(c.into(), wctype_l(class.as_ptr(), self.0), self.0) != 0 }
    }
}

/// The text, followed by a zero. PostgreSQL's texts themselves contain no zeros.
fn terminated<'a>(text: &str, room: &'a mut Vec<u8>) -> &'a CStr {
    room.clear();
    room.extend_from_slice(text.as_bytes());
    room.push(0);
    CStr::from_bytes_until_nul(room).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_decide_where_nothing_else_does() {
        let locale = Locale::named("C.UTF-8").expect("a locale that every machine has");
        let mut texts = ["b", "", "a", "ab", "Z", "é", "a b", "中"];
        texts.sort_by(|a, b| locale.compare(a, b, &mut Scratch::default()));
        assert_eq!(texts, ["", "Z", "a", "a b", "ab", "b", "é", "中"]);
        assert_eq!((locale.upper('ä'), locale.lower('Ä'), locale.upper('ß')), ('Ä', 'ä', 'ß'));
        assert!(locale.is('ä', c"alpha") && locale.is('9', c"digit") && !locale.is('ä', c"digit"));
        assert!(!locale.is('a', c"no such class"));
    }

    #[test]
    fn what_is_not_there_or_not_utf8_is_none() {
        assert!(Locale::named("xx_XX.UTF-8").is_none());
        assert!(Locale::named("C").is_none());
        assert!(Locale::named("with\0zero").is_none());
    }
}
