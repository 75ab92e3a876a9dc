//! Makes new parts of a tree.

use std::marker::PhantomData;

use pgrx::prelude::*;

use super::{Node, Ref, Shape, Tagged};
use crate::pg::make;

/// The memory context in which new parts of a tree are made.
#[derive(Clone, Copy)]
pub struct Memory<'a>(PhantomData<&'a ()>);

impl<'a, T> Ref<'a, T> {
    /// The memory of the tree: the current context, by the promise of [`Ref::new`].
    pub fn memory(self) -> Memory<'a> {
        Memory(PhantomData)
    }
}

impl<'a> Memory<'a> {
    /// A new node, which becomes a part of the tree.
    ///
    /// # Safety
    ///
    /// The node's pointers are null, or point to parts of the tree or to other new nodes.
    pub unsafe fn placed<T: Tagged>(self, node: T) -> Ref<'a, T> {
        // SAFETY: by the caller's promise, and by the promise of `Ref::new`. Nobody else refers to the node.
        unsafe { Ref::new(make::placed(node)) }
    }

    /// The column `number` of an item of the same level's FROM.
    pub fn column(self, item: i32, number: i16, shape: Shape) -> Ref<'a, pg_sys::Var> {
        // SAFETY: the new node contains no pointers.
        unsafe { self.placed(make::column(item, number, shape)) }
    }

    /// A call of a function whose result has the type `ty`.
    pub fn call(
        self,
        function: impl Into<pg_sys::Oid>,
        ty: pg_sys::Oid,
        collation: pg_sys::Oid,
        arguments: impl IntoIterator<Item = Node<'a>>,
    ) -> Node<'a> {
        let arguments = arguments.into_iter().map(Node::as_ptr::<pg_sys::Node>);
        // SAFETY: the arguments are parts of the tree.
        unsafe { self.placed(make::call(function.into(), ty, collation, arguments)) }.node()
    }

    pub fn null(self, ty: pg_sys::Oid) -> Node<'a> {
        // SAFETY: a new node.
        unsafe { Ref::new(make::null(ty)) }.node()
    }

    /// A constant text.
    pub fn text(self, value: &str) -> Node<'a> {
        // SAFETY: a new node.
        unsafe { Ref::new(make::text_constant(value)) }.node()
    }
}
