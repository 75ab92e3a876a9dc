//! The locales of the C library that collations use. The functions need a transaction.

use pgrx::prelude::*;

use super::catalog;
use super::session;

/// The names of the C library's locales that a collation uses.
pub struct LibcLocale {
    /// The locale that orders text (`LC_COLLATE`).
    pub order: String,
    /// The locale that determines the upper and lower case of letters (`LC_CTYPE`).
    pub letters: String,
}

/// The locales of a collation of the C library; `None` if another provider implements the collation.
pub fn libc_locale(collation: pg_sys::Oid) -> Option<LibcLocale> {
    use pg_sys::SysCacheIdentifier::{COLLOID, DATABASEOID};
    let (cache, row, columns) = match collation {
        pg_sys::InvalidOid => return None,
        pg_sys::DEFAULT_COLLATION_OID => {
            let columns = [
                pg_sys::Anum_pg_database_datlocprovider,
                pg_sys::Anum_pg_database_datcollate,
                pg_sys::Anum_pg_database_datctype,
            ];
            (DATABASEOID, session::database(), columns)
        }
        collation => {
            let columns = [
                pg_sys::Anum_pg_collation_collprovider,
                pg_sys::Anum_pg_collation_collcollate,
                pg_sys::Anum_pg_collation_collctype,
            ];
            (COLLOID, collation, columns)
        }
    };
    let [provider, order, letters] = columns;
    // SAFETY: the columns belong to the catalog of this cache: the provider is a character, the two others are texts.
    unsafe {
        let [provider, order, letters] = catalog::columns(cache, row, [provider, order, letters])?;
        if provider?.value() as u8 != pg_sys::COLLPROVIDER_LIBC {
            return None;
        }
        Some(LibcLocale { order: String::from_datum(order?, false)?, letters: String::from_datum(letters?, false)? })
    }
}
