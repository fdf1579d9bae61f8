//! Marks: instructions that tell the emulator where a region of interest begins and ends. They have
//! no effect on hardware.
//!
//! A mark is the long NOP `0f 1f 80 imm32` (Intel SDM volume 2, NOP). Its displacement identifies
//! the region:
//!
//! ```text
//!  imm32:  'N' 'P' | kind | slot        0x4e50_kkss
//!           1 begin, 2 end -+      +- 0 the whole program, 1 named in the PMU's header,
//!                                     2-253 regions of a program's own,
//!                                     254 the program that `numapilot run` starts,
//!                                     255 the timed part of a built-in workload
//! ```
//!
//! The same NOP with the displacement [`CALL`] is not a mark: by it, process 1 of the guest calls
//! the host.

/// Bytes of a region's name.
pub const NAME_BYTES: usize = 64;

/// The name of the region that is the whole run ([`Mark::WHOLE`]).
pub const WHOLE_NAME: &str = "all";

const SIGNATURE: u32 = 0x4e50_0000;
/// The displacement of the NOP by which the guest's process 1 calls the host.
pub const CALL: u32 = 0x4e43_0000;
const OPCODE: [u8; 3] = [0x0f, 0x1f, 0x80];

/// Begin or end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MarkKind {
    /// The region begins.
    Begin,
    /// The region ends.
    End,
}

/// The contents of a mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// Begin or end.
    pub kind: MarkKind,
    /// The region.
    pub slot: u8,
}

impl Mark {
    /// The slot of the whole program.
    pub const WHOLE: u8 = 0;
    /// The slot of a region whose name is in the PMU ([`crate::Pmu::set_mark_name`]).
    pub const NAMED: u8 = 1;
    /// The slot of the program that `numapilot run` starts, without numapilot's own start.
    pub const PROGRAM: u8 = 254;
    /// The slot of the timed part of a built-in workload: all its phases but the load.
    pub const WORK: u8 = u8::MAX;

    /// The displacement of the NOP.
    #[must_use]
    pub const fn displacement(self) -> u32 {
        let kind = match self.kind {
            MarkKind::Begin => 1,
            MarkKind::End => 2,
        };
        SIGNATURE | kind << 8 | self.slot as u32
    }

    /// The mark with this displacement, if it is one.
    #[must_use]
    pub const fn from_displacement(value: u32) -> Option<Self> {
        let [slot, kind, ..] = value.to_le_bytes();
        let kind = match kind {
            1 => MarkKind::Begin,
            2 => MarkKind::End,
            _ => return None,
        };
        if value & 0xffff_0000 == SIGNATURE { Some(Self { kind, slot }) } else { None }
    }

    /// The mark in these bytes of an instruction, if it is one.
    #[must_use]
    pub fn decode(instruction: &[u8]) -> Option<Self> {
        Self::from_displacement(displacement(instruction)?)
    }
}

/// Whether these bytes of an instruction are a call of the host ([`CALL`]).
#[must_use]
pub fn is_call(instruction: &[u8]) -> bool {
    displacement(instruction) == Some(CALL)
}

/// The displacement of an instruction, if it is the long NOP.
fn displacement(instruction: &[u8]) -> Option<u32> {
    let displacement = instruction.strip_prefix(&OPCODE)?.first_chunk()?;
    Some(u32::from_le_bytes(*displacement))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn marks_survive_the_instruction(slot: u8, begin: bool) {
            let kind = if begin { MarkKind::Begin } else { MarkKind::End };
            let mark = Mark { kind, slot };
            let bytes = [&OPCODE[..], &mark.displacement().to_le_bytes()].concat();
            prop_assert_eq!(Mark::decode(&bytes), Some(mark));
        }

        #[test]
        fn any_instruction_is_looked_at(bytes in proptest::collection::vec(any::<u8>(), 0..16)) {
            let marked = bytes.len() >= 7 && bytes[..3] == OPCODE && bytes[5..7] == [0x50, 0x4e];
            prop_assert_eq!(Mark::decode(&bytes).is_some(), marked && matches!(bytes[4], 1 | 2));
        }
    }

    #[test]
    fn the_nops_of_compilers_are_no_marks() {
        assert_eq!(Mark::decode(&[0x0f, 0x1f, 0x80, 0, 0, 0, 0]), None);
        assert_eq!(Mark::decode(&[0x0f, 0x1f, 0x40, 0]), None);
        assert!(!is_call(&[0x0f, 0x1f, 0x80, 0, 0, 0, 0]));
    }

    #[test]
    fn a_call_is_no_mark() {
        let code = [&OPCODE[..], &CALL.to_le_bytes()].concat();
        assert!(is_call(&code));
        assert_eq!(Mark::decode(&code), None);
    }
}
