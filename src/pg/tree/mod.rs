//! A safe view of the node trees that parser and planner hand around.
//!
//! A [`Ref`] is a node, or another part, of a tree that nobody changes meanwhile. It reads like a reference. Each field
//! that points to another part of the tree has a method: `query.hasAggs` is a flag, but `query.targetList()` a list of
//! further nodes. The caller of [`Ref::new`] promises that the tree is well-formed. No safe function here follows a
//! pointer that does not come from a field of the tree.
//!
//! - `fields`: the methods that follow a field, and their types
//! - `expression`: questions about expressions, and functions that make other forms of them
//! - `memory`: makes new parts of a tree

use std::iter::Map;
use std::marker::PhantomData;
use std::ops::Deref;
use std::ptr::{self, NonNull};
use std::slice;

use pgrx::prelude::*;

pub use self::memory::Memory;
use super::make;
pub use super::make::Shape;
use super::tag::Headed;
pub use super::tag::Tagged;

mod expression;
mod fields;
mod memory;

/// A part of a tree that PostgreSQL owns and that nobody changes during `'a`.
pub struct Ref<'a, T> {
    at: NonNull<T>,
    tree: PhantomData<&'a T>,
}

/// A node of any type; its tag tells the type.
pub type Node<'a> = Ref<'a, pg_sys::Node>;

impl<T> Clone for Ref<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Ref<'_, T> {}

impl<T> Deref for Ref<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.get()
    }
}

impl<'a, T> Ref<'a, T> {
    /// The root of a tree.
    ///
    /// # Safety
    ///
    /// The tree is well-formed: each field of its nodes holds what PostgreSQL's headers say. The tree, and whatever is
    /// made in the current memory context, stays in place and unchanged during `'a`.
    pub unsafe fn new(root: *mut T) -> Ref<'a, T> {
        Ref { at: NonNull::new(root).expect("a node where the tree must have one"), tree: PhantomData }
    }

    /// Like [`Ref::new`], but `None` for a null pointer.
    ///
    /// # Safety
    ///
    /// `root` is null, or fulfills the conditions of [`Ref::new`].
    pub unsafe fn or_null(root: *mut T) -> Option<Ref<'a, T>> {
        // SAFETY: by the caller's promise.
        (!root.is_null()).then(|| unsafe { Ref::new(root) })
    }

    pub fn get(self) -> &'a T {
        // SAFETY: a part of a tree that stays as it is, by the promise of `new`.
        unsafe { self.at.as_ref() }
    }

    pub fn as_ptr<U>(self) -> *mut U {
        self.at.as_ptr().cast()
    }

    pub fn is(self, other: Ref<'_, T>) -> bool {
        self.at == other.at
    }

    /// The same node, as another type.
    ///
    /// # Safety
    ///
    /// The node really has this type.
    unsafe fn seen_as<U>(self) -> Ref<'a, U> {
        Ref { at: self.at.cast(), tree: PhantomData }
    }
}

impl<'a, T: Headed> Ref<'a, T> {
    pub fn node(self) -> Node<'a> {
        // SAFETY: a node begins with its tag.
        unsafe { self.seen_as() }
    }
}

impl Ref<'_, pg_sys::Plan> {
    /// The number of values that a plan reads from the rows of plans around it.
    pub fn count_of_params(self) -> i32 {
        // SAFETY: null or a set.
        unsafe { pg_sys::bms_num_members(self.extParam) }
    }
}

impl<'a> Node<'a> {
    pub fn tag(self) -> pg_sys::NodeTag {
        self.type_
    }

    pub fn cast<T: Tagged>(self) -> Option<Ref<'a, T>> {
        // SAFETY: the tag tells the type.
        (self.tag() == T::TAG).then(|| unsafe { self.seen_as() })
    }

    /// The elements of a list of nodes that have the type `T`. A node that is no list has none.
    pub fn elements_of<T: Tagged>(self) -> impl Iterator<Item = Ref<'a, T>> + Clone {
        let list = if self.tag() == pg_sys::NodeTag::T_List { self.as_ptr() } else { ptr::null_mut() };
        // SAFETY: null or a list of nodes, as its tag says.
        unsafe { List::<pg_sys::Node>::new(list) }.iter().filter_map(Node::cast)
    }
}

/// A list in a tree. A missing list counts as an empty one.
pub struct List<'a, T> {
    list: *mut pg_sys::List,
    tree: PhantomData<&'a T>,
}

impl<T> Clone for List<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for List<'_, T> {}

/// The type of a list's elements.
pub trait Element: 'static {
    type Item<'a>;

    /// # Safety
    ///
    /// The cell belongs to a list of elements of this type, in a tree that fulfills the conditions of [`Ref::new`].
    unsafe fn of_cell<'a>(cell: &'a pg_sys::ListCell) -> Self::Item<'a>;
}

impl Element for pg_sys::Node {
    type Item<'a> = Node<'a>;

    unsafe fn of_cell<'a>(cell: &'a pg_sys::ListCell) -> Node<'a> {
        // SAFETY: by the caller's promise.
        unsafe { Ref::new(cell.ptr_value.cast()) }
    }
}

impl<T: Tagged> Element for T {
    type Item<'a> = Ref<'a, T>;

    unsafe fn of_cell<'a>(cell: &'a pg_sys::ListCell) -> Ref<'a, T> {
        // SAFETY: by the caller's promise.
        unsafe { pg_sys::Node::of_cell(cell) }.cast().expect("an element of the list's type")
    }
}

/// The elements are plans; null for a plan that is no longer needed.
impl Element for pg_sys::Plan {
    type Item<'a> = Option<Ref<'a, pg_sys::Plan>>;

    unsafe fn of_cell<'a>(cell: &'a pg_sys::ListCell) -> Option<Ref<'a, pg_sys::Plan>> {
        // SAFETY: by the caller's promise.
        unsafe { Ref::or_null(cell.ptr_value.cast()) }
    }
}

/// The elements are lists of nodes.
impl Element for pg_sys::List {
    type Item<'a> = List<'a, pg_sys::Node>;

    unsafe fn of_cell<'a>(cell: &'a pg_sys::ListCell) -> List<'a, pg_sys::Node> {
        // SAFETY: by the caller's promise.
        unsafe { List::new(cell.ptr_value.cast()) }
    }
}

impl Element for i32 {
    type Item<'a> = i32;

    unsafe fn of_cell(cell: &pg_sys::ListCell) -> i32 {
        // SAFETY: by the caller's promise.
        unsafe { cell.int_value }
    }
}

impl Element for pg_sys::Oid {
    type Item<'a> = pg_sys::Oid;

    unsafe fn of_cell(cell: &pg_sys::ListCell) -> pg_sys::Oid {
        // SAFETY: by the caller's promise.
        unsafe { cell.oid_value }
    }
}

type Elements<'a, T> = Map<slice::Iter<'a, pg_sys::ListCell>, fn(&'a pg_sys::ListCell) -> <T as Element>::Item<'a>>;

impl<'a, T: Element> List<'a, T> {
    /// # Safety
    ///
    /// `list` is null, or a list of elements of this type, in a tree that fulfills the conditions of [`Ref::new`].
    pub unsafe fn new(list: *mut pg_sys::List) -> List<'a, T> {
        List { list, tree: PhantomData }
    }

    pub fn iter(self) -> Elements<'a, T> {
        // SAFETY: null or a list of such elements, by the promise of `new`, with `length` cells.
        let cells = unsafe {
            self.list.as_ref().map_or(&[][..], |list| slice::from_raw_parts(list.elements, list.length as usize))
        };
        // SAFETY: by the promise of `new`.
        let element: fn(&'a pg_sys::ListCell) -> T::Item<'a> = |cell| unsafe { T::of_cell(cell) };
        cells.iter().map(element)
    }

    pub fn len(self) -> usize {
        self.iter().len()
    }

    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    pub fn as_ptr(self) -> *mut pg_sys::List {
        self.list
    }

    /// The list as a node; `None` if there is no list.
    pub fn node(self) -> Option<Node<'a>> {
        // SAFETY: null or a list, which is a node.
        unsafe { Ref::or_null(self.list.cast()) }
    }
}

impl<'a, T: Element> IntoIterator for List<'a, T> {
    type Item = T::Item<'a>;
    type IntoIter = Elements<'a, T>;

    fn into_iter(self) -> Elements<'a, T> {
        self.iter()
    }
}

/// The conjunction of the conditions; `None` if there are no conditions.
pub fn all_of<'a>(conditions: impl IntoIterator<Item = Node<'a>>) -> Option<Node<'a>> {
    let mut conditions = conditions.into_iter().map(Node::as_ptr::<pg_sys::Node>).peekable();
    conditions.peek()?;
    // SAFETY: the result is a new node around conditions of the tree, or the only condition.
    Some(unsafe { Ref::new(make::all_of(conditions)) })
}
