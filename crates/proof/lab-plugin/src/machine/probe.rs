//! The access of a callback, as a probe for the model.

use numapilot_lab_model::Probe;

use crate::cpu_scoreboard::Place;
use crate::qemu;

/// The current access, as a probe for the model.
pub struct Access<'a> {
    pub info: qemu::MemInfo,
    pub address: u64,
    /// Looked up on demand, because most accesses do not need it.
    pub scoreboard: &'a Place,
}

impl Probe for Access<'_> {
    fn physical_address(&self) -> Option<u64> {
        // SAFETY: called within the callback that `info` belongs to; the handle is checked for null
        // and used before the callback returns.
        unsafe {
            let handle = qemu::qemu_plugin_get_hwaddr(self.info, self.address);
            (!handle.is_null() && !qemu::qemu_plugin_hwaddr_is_io(handle))
                .then(|| qemu::qemu_plugin_hwaddr_phys_addr(handle))
        }
    }

    fn value(&self) -> u64 {
        // SAFETY: called within the callback that `info` belongs to.
        unsafe { qemu::qemu_plugin_mem_get_value(self.info) }.low
    }

    fn instructions(&self) -> u64 {
        self.scoreboard.get().map_or(0, |scoreboard| scoreboard.instructions())
    }
}
