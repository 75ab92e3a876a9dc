//! New nodes, in the current memory context.
//!
//! A node is a plain value until it is [`placed`]. Then it belongs to PostgreSQL, and Rust keeps only its address.

use std::ffi::c_char;
use std::mem;

use pgrx::prelude::*;

use super::tag::Tagged;

/// The type of an expression's values, with its modifier and collation.
#[derive(Clone, Copy, PartialEq)]
pub struct Shape {
    pub ty: pg_sys::Oid,
    pub modifier: i32,
    pub collation: pg_sys::Oid,
}

impl Shape {
    /// The shape of values of a type without a modifier and without a collation.
    pub fn of(ty: pg_sys::Oid) -> Shape {
        Shape { ty, modifier: -1, collation: pg_sys::InvalidOid }
    }
}

/// A node with all fields zero.
pub fn blank<T: Tagged>() -> T {
    // SAFETY: all zeroes are a valid value of every node type, and every node begins with its tag.
    unsafe {
        let mut node: T = mem::zeroed();
        (&raw mut node).cast::<pg_sys::NodeTag>().write(T::TAG);
        node
    }
}

/// Moves a node into PostgreSQL's memory, and returns its address.
pub fn placed<T: Tagged>(node: T) -> *mut T {
    // SAFETY: the memory is new, has this size, and is aligned for every type.
    unsafe {
        let place = pg_sys::palloc(size_of::<T>()).cast::<T>();
        place.write(node);
        place
    }
}

/// A new list of nodes; null if there are no nodes.
pub fn list<T>(nodes: impl IntoIterator<Item = *mut T>) -> *mut pg_sys::List {
    let mut list = std::ptr::null_mut();
    for node in nodes {
        // SAFETY: `list` is null, or the new list.
        list = unsafe { pg_sys::lappend(list, node.cast()) };
    }
    list
}

/// A new list of oids.
pub fn oids(oids: impl IntoIterator<Item = pg_sys::Oid>) -> *mut pg_sys::List {
    let mut list = std::ptr::null_mut();
    for oid in oids {
        // SAFETY: `list` is null, or the new list.
        list = unsafe { pg_sys::lappend_oid(list, oid) };
    }
    list
}

/// A new set with one member.
pub fn singleton(member: i32) -> *mut pg_sys::Bitmapset {
    // SAFETY: the function makes a new set.
    unsafe { pg_sys::bms_make_singleton(member) }
}

/// A new list of integers.
pub fn integers(integers: impl IntoIterator<Item = i32>) -> *mut pg_sys::List {
    let mut list = std::ptr::null_mut();
    for integer in integers {
        // SAFETY: `list` is null, or the new list.
        list = unsafe { pg_sys::lappend_int(list, integer) };
    }
    list
}

/// A new list of strings.
pub fn strings<S: AsRef<str>>(strings: impl IntoIterator<Item = S>) -> *mut pg_sys::List {
    list(strings.into_iter().map(|s| string(s.as_ref())))
}

/// Appends to a list of nodes.
///
/// # Safety
///
/// `list` is null, or a list of nodes that the caller owns.
pub unsafe fn append<T>(list: &mut *mut pg_sys::List, node: *mut T) {
    // SAFETY: by the caller's promise.
    *list = unsafe { pg_sys::lappend(*list, node.cast()) };
}

/// A new C string.
pub fn text(s: &str) -> *mut c_char {
    // SAFETY: the function copies `len` bytes and appends a zero.
    unsafe { pg_sys::pnstrdup(s.as_ptr().cast(), s.len()) }
}

/// A new String node.
pub fn string(s: &str) -> *mut pg_sys::Node {
    placed(pg_sys::String { sval: text(s), ..blank() }).cast()
}

/// A reference to the column `number` of an item of FROM on the same query level.
pub fn column(item: i32, number: i16, shape: Shape) -> pg_sys::Var {
    // SAFETY: the function makes a new node.
    unsafe { *pg_sys::makeVar(item, number, shape.ty, shape.modifier, shape.collation, 0) }
}

/// An entry of a select list.
pub fn target<T>(expr: *mut T, number: i16) -> *mut pg_sys::TargetEntry {
    // SAFETY: the function makes a node around the expression, and does not read the expression.
    unsafe { pg_sys::makeTargetEntry(expr.cast(), number, std::ptr::null_mut(), false) }
}

/// A call of a function whose result has the type `ty`.
pub fn call<T>(
    function: pg_sys::Oid,
    ty: pg_sys::Oid,
    collation: pg_sys::Oid,
    arguments: impl IntoIterator<Item = *mut T>,
) -> pg_sys::FuncExpr {
    pg_sys::FuncExpr {
        funcid: function,
        funcresulttype: ty,
        funcformat: pg_sys::CoercionForm::COERCE_EXPLICIT_CALL,
        funccollid: collation,
        inputcollid: collation,
        args: list(arguments),
        location: -1,
        ..blank()
    }
}

/// A null constant.
pub fn null(ty: pg_sys::Oid) -> *mut pg_sys::Const {
    // SAFETY: the function looks up the type, and makes a new node.
    unsafe { pg_sys::makeNullConst(ty, -1, pg_sys::InvalidOid) }
}

/// A constant text.
pub fn text_constant(value: &str) -> *mut pg_sys::Const {
    let (ty, collation) = (pg_sys::TEXTOID, pg_sys::DEFAULT_COLLATION_OID);
    // SAFETY: the functions make a new text, and a node around it.
    unsafe {
        let value = pg_sys::cstring_to_text_with_len(value.as_ptr().cast(), value.len() as i32);
        pg_sys::makeConst(ty, -1, collation, -1, value.into(), false, false)
    }
}

/// The conjunction of all conditions; the constant true if there are none.
pub fn all_of<T>(conditions: impl IntoIterator<Item = *mut T>) -> *mut pg_sys::Node {
    // SAFETY: the function makes a node around a new list, and does not read the list's elements.
    unsafe { pg_sys::make_ands_explicit(list(conditions)).cast() }
}

/// The alias of an item of FROM, with the names of its columns.
pub fn alias(name: &str, columns: *mut pg_sys::List) -> *mut pg_sys::Alias {
    placed(pg_sys::Alias { aliasname: text(name), colnames: columns, ..blank() })
}

/// A FROM clause that contains only the first entry of the range table, and a WHERE condition.
pub fn from_first(quals: *mut pg_sys::Node) -> *mut pg_sys::FromExpr {
    let first = placed(pg_sys::RangeTblRef { rtindex: 1, ..blank() });
    placed(pg_sys::FromExpr { fromlist: list([first]), quals, ..blank() })
}
