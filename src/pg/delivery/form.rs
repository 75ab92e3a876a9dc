//! The wire format of a column's values. The type's own output function determines it. So domains, and types that share
//! an output function, need no case of their own.

use std::ffi::CStr;
use std::slice::from_raw_parts;

use pgrx::prelude::*;
use pgrx::varlena;

use super::message::Message;
use super::offsets::Offsets;
use crate::pg::symbols;

pub struct Column {
    form: Form,
    /// PostgreSQL's output function, for values that this module does not write itself.
    function: pg_sys::FmgrInfo,
}

#[derive(Clone, Copy)]
enum Form {
    /// Bytes of a text or a byte string, as PostgreSQL's output function returns them.
    Text,
    Binary,
    // Forms of the text format.
    Truth,
    Int16,
    Int32,
    Int64,
    Oid,
    Numeric,
    Date,
    Timestamp,
    TimestampTz,
    Uuid,
    /// The characters of a text up to its first zero byte, because PostgreSQL's output functions end a text there. An
    /// example of a text with a zero byte is `''::"char"::char(1)`.
    Characters,
    // Forms of both formats: the bytes are sent unchanged.
    Varlena,
    Name,
    // Forms of the binary format: the most significant byte comes first.
    Byte,
    Two,
    Four,
    Eight,
    Sixteen,
    Digits,
}

fn text_form(function: u32, same_encoding: bool) -> Form {
    match function {
        pg_sys::F_BOOLOUT => Form::Truth,
        pg_sys::F_INT2OUT => Form::Int16,
        pg_sys::F_INT4OUT => Form::Int32,
        pg_sys::F_INT8OUT => Form::Int64,
        pg_sys::F_OIDOUT => Form::Oid,
        pg_sys::F_NUMERIC_OUT => Form::Numeric,
        pg_sys::F_DATE_OUT => Form::Date,
        pg_sys::F_TIMESTAMP_OUT => Form::Timestamp,
        pg_sys::F_TIMESTAMPTZ_OUT => Form::TimestampTz,
        pg_sys::F_UUID_OUT => Form::Uuid,
        pg_sys::F_TEXTOUT | pg_sys::F_VARCHAROUT | pg_sys::F_BPCHAROUT if same_encoding => Form::Characters,
        pg_sys::F_NAMEOUT if same_encoding => Form::Name,
        _ => Form::Text,
    }
}

fn binary_form(function: u32, same_encoding: bool) -> Form {
    match function {
        pg_sys::F_BOOLSEND => Form::Byte,
        pg_sys::F_INT2SEND => Form::Two,
        pg_sys::F_INT4SEND | pg_sys::F_OIDSEND | pg_sys::F_FLOAT4SEND | pg_sys::F_DATE_SEND => Form::Four,
        pg_sys::F_INT8SEND
        | pg_sys::F_FLOAT8SEND
        | pg_sys::F_TIMESTAMP_SEND
        | pg_sys::F_TIMESTAMPTZ_SEND
        | pg_sys::F_TIME_SEND => Form::Eight,
        pg_sys::F_UUID_SEND => Form::Sixteen,
        pg_sys::F_NUMERIC_SEND => Form::Digits,
        pg_sys::F_BYTEASEND => Form::Varlena,
        pg_sys::F_TEXTSEND | pg_sys::F_VARCHARSEND | pg_sys::F_BPCHARSEND if same_encoding => Form::Varlena,
        pg_sys::F_NAMESEND if same_encoding => Form::Name,
        _ => Form::Binary,
    }
}

impl Column {
    /// Chooses the form of a column. Raises PostgreSQL's error if the type lacks the needed output function.
    ///
    /// # Safety
    ///
    /// `place` has room for a `Column`, in memory that lives as long as `context`.
    pub unsafe fn prepare(
        place: *mut Column,
        ty: pg_sys::Oid,
        is_binary: bool,
        same_encoding: bool,
        context: pg_sys::MemoryContext,
    ) {
        let (mut function, mut is_varlena) = (pg_sys::InvalidOid, false);
        // SAFETY: by the caller's promise.
        unsafe {
            let form = if is_binary {
                symbols::getTypeBinaryOutputInfo(ty, &mut function, &mut is_varlena);
                binary_form(function.to_u32(), same_encoding)
            } else {
                symbols::getTypeOutputInfo(ty, &mut function, &mut is_varlena);
                text_form(function.to_u32(), same_encoding)
            };
            (*place).form = form;
            symbols::fmgr_info_cxt(function, &raw mut (*place).function, context);
        }
    }

    /// Writes a value. Returns whether memory was allocated for it.
    ///
    /// # Safety
    ///
    /// `value` has the column's type. The caller empties the current memory context afterwards.
    #[inline]
    pub unsafe fn put(&mut self, value: pg_sys::Datum, message: &mut Message, offsets: &mut Offsets) -> bool {
        let word = value.value();
        match self.form {
            Form::Int16 => {
                message.put_written(wire::integer::ROOM, |out| wire::integer::signed((word as i16).into(), out))
            }
            Form::Int32 => {
                message.put_written(wire::integer::ROOM, |out| wire::integer::signed((word as i32).into(), out))
            }
            Form::Int64 => message.put_written(wire::integer::ROOM, |out| wire::integer::signed(word as i64, out)),
            Form::Oid => {
                message.put_written(wire::integer::ROOM, |out| wire::integer::unsigned((word as u32).into(), out))
            }
            Form::Truth => message.put_fixed([if word as u8 == 0 { b'f' } else { b't' }]),
            Form::Byte => message.put_fixed([u8::from(word as u8 != 0)]),
            Form::Two => message.put_fixed((word as u16).to_be_bytes()),
            Form::Four => message.put_fixed((word as u32).to_be_bytes()),
            Form::Eight => message.put_fixed((word as u64).to_be_bytes()),
            // SAFETY: by the caller's promise, the value's type is one for which this form was chosen.
            _ => return unsafe { self.put_other(value, message, offsets) },
        }
        false
    }

    /// # Safety
    ///
    /// As for [`Column::put`].
    unsafe fn put_other(&mut self, value: pg_sys::Datum, message: &mut Message, offsets: &mut Offsets) -> bool {
        let word = value.value();
        match self.form {
            // SAFETY: values of this form are varlenas.
            Form::Varlena => unsafe {
                let (bytes, is_new) = content(value);
                message.put_value(bytes);
                return is_new;
            },
            // SAFETY: as above.
            Form::Characters => unsafe {
                let (bytes, is_new) = content(value);
                message.put_value(until_zero(bytes));
                return is_new;
            },
            // SAFETY: a name is a sequence of bytes that ends with a zero.
            Form::Name => unsafe { message.put_value(CStr::from_ptr(value.cast_mut_ptr()).to_bytes()) },
            Form::Date if is_iso() => {
                message.put_written(wire::moment::ROOM, |out| wire::moment::date(word as i32, out));
            }
            Form::Timestamp if is_iso() => {
                message.put_written(wire::moment::ROOM, |out| wire::moment::timestamp(word as i64, None, out));
            }
            Form::TimestampTz if is_iso() => {
                let micros = word as i64;
                let is_finite = !matches!(micros, i64::MIN | i64::MAX);
                match if is_finite { offsets.at(micros) } else { Some(0) } {
                    Some(east) => {
                        message.put_written(wire::moment::ROOM, |out| wire::moment::timestamp(micros, Some(east), out))
                    }
                    // SAFETY: by the caller's promise.
                    None => return unsafe { self.call(value, message) },
                }
            }
            // SAFETY: a uuid consists of sixteen bytes.
            Form::Uuid => unsafe {
                let bytes = &*value.cast_mut_ptr::<[u8; 16]>();
                message.put_written(wire::uuid::ROOM, |out| wire::uuid::text(bytes, out));
            },
            // SAFETY: as above.
            Form::Sixteen => unsafe { message.put_fixed(*value.cast_mut_ptr::<[u8; 16]>()) },
            // SAFETY: values of these forms are numerics, which are varlenas.
            Form::Numeric | Form::Digits => unsafe {
                let (bytes, is_new) = content(value);
                let Some(number) = wire::numeric::Stored::new(bytes) else {
                    return self.call(value, message);
                };
                match self.form {
                    Form::Digits => message.put_written(number.binary_room(), |out| number.binary(out)),
                    _ => message.put_written(number.text_room(), |out| number.text(out)),
                }
                return is_new;
            },
            // SAFETY: by the caller's promise.
            _ => return unsafe { self.call(value, message) },
        }
        false
    }

    /// # Safety
    ///
    /// As for [`Column::put`].
    unsafe fn call(&mut self, value: pg_sys::Datum, message: &mut Message) -> bool {
        // SAFETY: this is the output function of the value's type. Its result lives until the current memory context is
        // emptied.
        unsafe {
            if matches!(self.form, Form::Binary | Form::Digits) {
                let bytes = symbols::SendFunctionCall(&mut self.function, value);
                message
                    .put_value(from_raw_parts(varlena::vardata_any(bytes).cast(), varlena::varsize_any_exhdr(bytes)));
            } else {
                message.put_text(symbols::OutputFunctionCall(&mut self.function, value));
            }
        }
        true
    }
}

/// The content of a varlena, without its length, and whether the value had to be detoasted.
///
/// # Safety
///
/// `value` is a varlena.
#[inline]
unsafe fn content<'a>(value: pg_sys::Datum) -> (&'a [u8], bool) {
    // SAFETY: by the caller's promise.
    unsafe {
        let mut pointer = value.cast_mut_ptr::<pg_sys::varlena>();
        let is_packed = varlena::varatt_is_1b_e(pointer) || varlena::varatt_is_4b_c(pointer);
        if is_packed {
            pointer = symbols::pg_detoast_datum_packed(pointer);
        }
        (from_raw_parts(varlena::vardata_any(pointer).cast(), varlena::varsize_any_exhdr(pointer)), is_packed)
    }
}

#[inline]
fn until_zero(bytes: &[u8]) -> &[u8] {
    CStr::from_bytes_until_nul(bytes).map_or(bytes, CStr::to_bytes)
}

#[inline]
fn is_iso() -> bool {
    // SAFETY: a setting of this process.
    unsafe { pg_sys::DateStyle == pg_sys::USE_ISO_DATES as i32 }
}
