//! A node that the calling thread prefers for a while.

use numapilot_syscall::policy::ThreadPolicy;

/// While it lives, new memory of the calling thread comes from one node, if there is any. When
/// dropped, it restores the policy that the thread had before.
pub struct Preference {
    before: ThreadPolicy,
}

impl Preference {
    /// Prefers a node; `None` if the kernel refuses.
    pub fn of(node: u32) -> Option<Self> {
        let before = ThreadPolicy::current().ok()?;
        ThreadPolicy::preferred(node).set().ok()?;
        Some(Self { before })
    }
}

impl Drop for Preference {
    fn drop(&mut self) {
        // The kernel accepted this policy before.
        let _ = self.before.set();
    }
}
