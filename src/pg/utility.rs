//! Utility statements: runs actions of ours before and after some of them.

use std::ffi::c_char;
use std::ptr::null;

use pgrx::prelude::*;

use super::tree::{Node, Ref};
use super::{hooks, symbols};

/// An action on a statement. The function must have its own `#[pg_guard]`, because the hook calls it without a guard.
pub type Look = unsafe extern "C-unwind" fn(*mut pg_sys::Node);

/// Actions before and after the statements that `concerns` selects.
pub struct Watcher {
    pub concerns: fn(Node<'_>) -> bool,
    pub before: Option<Look>,
    /// Runs after the statement. If the statement has ended the transaction, only the statement's kind may be examined.
    pub behind: Option<Look>,
}

const MOST: usize = 4;

static mut PREVIOUS: pg_sys::ProcessUtility_hook_type = None;
static mut WATCHERS: [*const Watcher; MOST] = [null(); MOST];

/// Registers a watcher. To be called while the library is preloaded.
pub fn watch(watcher: &'static Watcher) {
    // SAFETY: on the one thread, before anybody calls the hook.
    let mut watchers = unsafe { WATCHERS };
    let free = watchers.iter().position(|place| place.is_null()).expect("a place for who watches statements");
    watchers[free] = watcher;
    // SAFETY: as above.
    unsafe { WATCHERS = watchers };
    if free == 0 {
        hooks::install!(ProcessUtility_hook, PREVIOUS, hook);
    }
}

/// The hook that the server calls for every utility statement. pgrx's guards would lose the position, context and names
/// of an error. So the statement runs outside any guard. An error jumps over this frame, because the frame owns
/// nothing.
unsafe extern "C-unwind" fn hook(
    statement: *mut pg_sys::PlannedStmt,
    query: *const c_char,
    read_only_tree: bool,
    context: pg_sys::ProcessUtilityContext::Type,
    parameters: pg_sys::ParamListInfo,
    environment: *mut pg_sys::QueryEnvironment,
    receiver: *mut pg_sys::DestReceiver,
    completion: *mut pg_sys::QueryCompletion,
) {
    // SAFETY: called by the server with a valid statement; everything is passed on as it came.
    unsafe {
        let parsed = (*statement).utilityStmt;
        let watchers = WATCHERS;
        let concerned = watchers.map(|watcher| {
            let concerns = |watcher: &Watcher| Ref::or_null(parsed).is_some_and(watcher.concerns);
            watcher.as_ref().filter(|watcher| concerns(watcher))
        });
        for look in concerned.iter().flatten().filter_map(|watcher| watcher.before) {
            look(parsed);
        }
        PREVIOUS.unwrap_or(symbols::standard_ProcessUtility)(
            statement,
            query,
            read_only_tree,
            context,
            parameters,
            environment,
            receiver,
            completion,
        );
        for look in concerned.iter().flatten().filter_map(|watcher| watcher.behind) {
            look(parsed);
        }
    }
}
