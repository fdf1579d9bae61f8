//! Finds the accesses of a block that tell the model nothing beyond other accesses of the block.
//!
//! A callback costs more than most instructions. An access needs none if the block makes another
//! one that is certainly in the same line: at the same place, or between two places that are at
//! most a line apart and both accessed:
//!
//! ```text
//!   mov [rsp+8], rax  ----+        push rbp   rsp-8   reported
//!   ...                   |        push r15   rsp-16  in the line of one of the two
//!   mov rcx, [rsp+8]  <---+        push rbx   rsp-24  reported
//! ```
//!
//! Places are compared by the values of their registers at the start of the block, plus what the
//! block has added since. A write represents only writes and later reads, so the model sees which
//! CPU reads a line and which changes it. A load that may return an address is always reported,
//! because the model follows pointers, except on the stack.

use iced_x86::{
    Code, Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory, Mnemonic,
    OpAccess, OpKind, Register, UsedMemory,
};

/// Line size of the model.
const LINE_BYTES: i64 = 64;
/// Number of general registers.
const REGISTERS: usize = 16;
/// Index of the stack pointer.
const STACK: usize = 4;
/// QEMU splits larger accesses into several.
const LARGEST: usize = 16;

/// The accesses of an instruction that must be reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reported {
    pub reads: bool,
    pub writes: bool,
    /// The value that it reads may be an address, or an address may be computed from it: it
    /// replaces the contents of a register.
    pub value: bool,
    /// The number of its accesses is not known: a prefix repeats it, once for each element, or the
    /// instruction is unknown.
    pub elements: bool,
}

/// The value of a register: the result of some instruction, plus a constant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Value {
    origin: u32,
    offset: i64,
}

/// A place without its constant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    base: Option<u32>,
    index: Option<(u32, u32)>,
    segment: Option<Register>,
}

#[derive(Clone, Copy, Debug)]
struct Access {
    instruction: usize,
    offset: i64,
    write: bool,
    /// The load may return an address, and is not on the stack.
    pointer: bool,
}

/// The block so far.
#[derive(Debug)]
struct Block {
    registers: [Value; REGISTERS],
    origins: u32,
    places: Vec<(Place, Vec<Access>)>,
    reported: Vec<Reported>,
    reads: u64,
    writes: u64,
}

/// What must be done for a block of instructions.
#[derive(Debug)]
pub struct Plan {
    /// What must be reported of each instruction.
    pub reported: Vec<Reported>,
    /// The number of reads, reported or not, without instructions with elements.
    pub reads: u64,
    /// The number of writes, likewise.
    pub writes: u64,
    /// Whether the block may end by a jump backwards. Every loop has such a block; a function
    /// returns forward, to the instruction after its call.
    pub goes_back: bool,
}

/// The plan of a block that starts at this address.
pub fn plan<'a>(address: u64, block: impl Iterator<Item = &'a [u8]>) -> Plan {
    let mut state = Block::new();
    let mut factory = InstructionInfoFactory::new();
    let mut ip = address;
    let mut goes_back = false;
    for code in block {
        let instruction = Decoder::with_ip(64, code, ip, DecoderOptions::NONE).decode();
        state.add(&instruction, &mut factory);
        goes_back = may_go_back(&instruction);
        ip = ip.wrapping_add(code.len() as u64);
    }
    let (reads, writes) = (state.reads, state.writes);
    Plan { reported: state.finish(), reads, writes, goes_back }
}

/// Whether an instruction may jump to an earlier one, other than by returning.
fn may_go_back(instruction: &Instruction) -> bool {
    match instruction.flow_control() {
        FlowControl::Next | FlowControl::Return => false,
        FlowControl::UnconditionalBranch | FlowControl::ConditionalBranch | FlowControl::Call => {
            instruction.near_branch_target() <= instruction.ip()
        }
        _ => true,
    }
}

impl Block {
    fn new() -> Self {
        let value = |i| Value { origin: i as u32, offset: 0 };
        Self {
            registers: std::array::from_fn(value),
            origins: REGISTERS as u32,
            places: Vec::new(),
            reported: Vec::new(),
            reads: 0,
            writes: 0,
        }
    }

    fn add(&mut self, instruction: &Instruction, factory: &mut InstructionInfoFactory) {
        let at = self.reported.len();
        let info = factory.info(instruction);
        let repeated = instruction.is_string_instruction()
            && (instruction.has_rep_prefix() || instruction.has_repne_prefix());
        let unknown = instruction.is_invalid();
        let elements = repeated || unknown;
        let value = !elements && replaces_a_register(instruction, info.used_registers());
        let accesses = |way| info.used_memory().iter().filter(|m| goes(m.access(), way)).count();
        let [reads, writes] = [OpAccess::Read, OpAccess::Write].map(accesses);
        // Asking QEMU to report accesses that never happen costs memory and time for each
        // instruction.
        let (may_read, may_write) = (unknown || reads > 0, unknown || writes > 0);
        self.reported.push(Reported { reads: may_read, writes: may_write, value, elements });
        if !elements {
            self.reads += reads as u64;
            self.writes += writes as u64;
        }
        for memory in info.used_memory() {
            let size = memory.memory_size().size();
            if elements || size == 0 || size > LARGEST {
                continue;
            }
            let Some((place, offset)) = self.place(memory) else { continue };
            let on_stack = place.base == Some(STACK as u32) && place.index.is_none();
            let pointer = size >= 4 && !on_stack && value;
            let accesses = accesses_of(&mut self.places, place);
            let (is_read, is_write) = match memory.access() {
                OpAccess::Read => (true, false),
                OpAccess::Write => (false, true),
                OpAccess::ReadWrite => (true, true),
                _ => (false, false),
            };
            // QEMU has one callback for all reads of an instruction, and one for all writes.
            if is_read && reads == 1 {
                accesses.push(Access { instruction: at, offset, write: false, pointer });
            }
            if is_write && writes == 1 {
                accesses.push(Access { instruction: at, offset, write: true, pointer: false });
            }
        }
        self.follow(instruction, info.used_registers());
    }

    /// The place of an access; `None` if its registers are not general ones.
    fn place(&self, memory: &UsedMemory) -> Option<(Place, i64)> {
        let value = |register: Register| match register {
            Register::None | Register::RIP => Some(None),
            _ => self.registers.get(general(register)?).copied().map(Some),
        };
        let (base, index) = (value(memory.base())?, value(memory.index())?);
        let scale = memory.scale();
        let mut offset = memory.displacement() as i64;
        offset = offset.wrapping_add(base.map_or(0, |b| b.offset));
        offset = offset.wrapping_add(index.map_or(0, |i| i.offset.wrapping_mul(scale.into())));
        let segment = Some(memory.segment()).filter(|s| matches!(s, Register::FS | Register::GS));
        let place = Place {
            base: base.map(|b| b.origin),
            index: index.map(|i| (i.origin, scale)),
            segment,
        };
        Some((place, offset))
    }

    /// Tracks the registers that the instruction changes.
    fn follow(&mut self, instruction: &Instruction, used: &[iced_x86::UsedRegister]) {
        let known = self.moved(instruction);
        for register in used {
            let written = !matches!(register.access(), OpAccess::Read | OpAccess::CondRead);
            if let Some(i) = general(register.register()).filter(|_| written) {
                self.registers[i] = Value { origin: self.origins, offset: 0 };
                self.origins += 1;
            }
        }
        if let Some((i, value)) = known {
            self.registers[i] = value;
        }
    }

    /// The register that the instruction changes in a tracked way, with its new value.
    fn moved(&self, instruction: &Instruction) -> Option<(usize, Value)> {
        let step = i64::from(instruction.stack_pointer_increment());
        let stack = self.registers[STACK];
        if step != 0 && !matches!(instruction.code(), Code::Enterq_imm16_imm8 | Code::Leaveq) {
            return Some((STACK, Value { offset: stack.offset.wrapping_add(step), ..stack }));
        }
        let to = instruction.op0_register();
        let whole = |register: Register| register.is_gpr64().then(|| register.number());
        let to = whole(to)?;
        let plus = |from: usize, by: i64| {
            let value = *self.registers.get(from)?;
            Some((to, Value { offset: value.offset.wrapping_add(by), ..value }))
        };
        let immediate = || match instruction.op1_kind() {
            OpKind::Immediate8to64 | OpKind::Immediate32to64 => {
                Some(instruction.immediate(1) as i64)
            }
            _ => None,
        };
        match instruction.mnemonic() {
            Mnemonic::Mov if instruction.op1_kind() == OpKind::Register => {
                plus(whole(instruction.op1_register())?, 0)
            }
            Mnemonic::Add => plus(to, immediate()?),
            Mnemonic::Sub => plus(to, immediate()?.wrapping_neg()),
            Mnemonic::Inc => plus(to, 1),
            Mnemonic::Dec => plus(to, -1),
            Mnemonic::Lea if instruction.memory_index() == Register::None => {
                plus(whole(instruction.memory_base())?, instruction.memory_displacement64() as i64)
            }
            _ => None,
        }
    }

    fn finish(mut self) -> Vec<Reported> {
        for (_, accesses) in &self.places {
            for access in silent(accesses) {
                let reported = &mut self.reported[access.instruction];
                *(if access.write { &mut reported.writes } else { &mut reported.reads }) = false;
            }
        }
        self.reported
    }
}

fn accesses_of(places: &mut Vec<(Place, Vec<Access>)>, place: Place) -> &mut Vec<Access> {
    let known = places.iter().position(|(known, _)| *known == place);
    let at = known.unwrap_or_else(|| {
        places.push((place, Vec::new()));
        places.len() - 1
    });
    &mut places[at].1
}

/// Whether an access includes this kind.
fn goes(access: OpAccess, way: OpAccess) -> bool {
    match access {
        OpAccess::Read | OpAccess::CondRead => way == OpAccess::Read,
        OpAccess::Write | OpAccess::CondWrite => way == OpAccess::Write,
        OpAccess::ReadWrite | OpAccess::ReadCondWrite => true,
        _ => false,
    }
}

/// Whether the value that an instruction reads from memory may be in a general register afterwards,
/// unchanged. This excludes values that are added to or compared with a register, or read into
/// another kind.
fn replaces_a_register(instruction: &Instruction, used: &[iced_x86::UsedRegister]) -> bool {
    let exchanged =
        matches!(instruction.mnemonic(), Mnemonic::Xchg | Mnemonic::Xadd | Mnemonic::Cmpxchg);
    used.iter().any(|register| {
        let replaced = match register.access() {
            OpAccess::Write | OpAccess::CondWrite => true,
            OpAccess::ReadWrite | OpAccess::ReadCondWrite => exchanged,
            _ => false,
        };
        replaced && general(register.register()).is_some_and(|number| number != STACK)
    })
}

/// The general register that this is, or is part of.
fn general(register: Register) -> Option<usize> {
    register.is_gpr().then(|| register.full_register().number())
}

/// Those accesses to one place, in program order, that need not be reported.
fn silent(accesses: &[Access]) -> Vec<Access> {
    let mut silent = Vec::new();
    let mut reported: Vec<Access> = Vec::new();
    for access in accesses {
        let stands = |t: &&Access| t.offset == access.offset && (t.write || !access.write);
        if reported.iter().any(|t| stands(&t)) {
            silent.push(*access)
        } else {
            reported.push(*access)
        }
    }
    for write in [false, true] {
        let mut points: Vec<Access> =
            reported.iter().filter(|t| t.write == write).copied().collect();
        points.sort_by_key(|p| p.offset);
        let mut last: Option<i64> = None;
        for (i, point) in points.iter().enumerate() {
            let next = points.get(i + 1).map(|next| next.offset);
            let between = last.zip(next).is_some_and(|(l, n)| n.wrapping_sub(l) <= LINE_BYTES);
            if between && !point.pointer {
                silent.push(*point);
            } else {
                last = Some(point.offset);
            }
        }
    }
    silent
}

#[cfg(test)]
mod tests {
    use super::*;

    /// For each instruction, its reported reads and writes; and the numbers of unreported ones.
    fn of(block: &[&[u8]]) -> (Vec<(bool, bool)>, u64, u64) {
        let Plan { reported, reads, writes, .. } = plan(0x40_0000, block.iter().copied());
        let counted = |goes: fn(&Reported) -> bool| {
            reported.iter().filter(|t| goes(t) && !t.elements).count() as u64
        };
        let (silent_reads, silent_writes) =
            (reads - counted(|t| t.reads), writes - counted(|t| t.writes));
        (reported.iter().map(|t| (t.reads, t.writes)).collect(), silent_reads, silent_writes)
    }

    const STORE_8: &[u8] = &[0x48, 0x89, 0x47, 0x08]; // mov %rax,8(%rdi)
    const LOAD_8: &[u8] = &[0x48, 0x8b, 0x4f, 0x08]; // mov 8(%rdi),%rcx
    const NEXT: &[u8] = &[0x48, 0x83, 0xc7, 0x08]; // add $8,%rdi
    const LOAD_0: &[u8] = &[0x48, 0x8b, 0x17]; // mov (%rdi),%rdx

    #[test]
    fn the_same_place_is_reported_once() {
        assert_eq!(of(&[LOAD_8, LOAD_8]), (vec![(true, false), (false, false)], 1, 0));
        assert_eq!(of(&[STORE_8, LOAD_8]).1, 1);
        assert_eq!(of(&[LOAD_8, STORE_8]).2, 0, "who changes the line must be seen");
        assert_eq!(of(&[LOAD_8, NEXT, LOAD_0]).1, 1, "the same place by another name");
        let load_rdi: &[u8] = &[0x48, 0x8b, 0x3f]; // mov (%rdi),%rdi
        assert_eq!(of(&[LOAD_0, load_rdi, LOAD_0]).1, 1, "the last is elsewhere");
    }

    #[test]
    fn between_two_places_a_line_apart_only_addresses_are_reported() {
        // mov %al,d(%rdi); mov %al,d(%rdi,%rsi,4); mov d(%rdi),%eax; movzbl d(%rdi),%eax.
        let store = |d: u8| vec![0x88, 0x47, d];
        let indexed = |d: u8| vec![0x88, 0x44, 0xb7, d];
        let load = |d: u8| vec![0x8b, 0x47, d];
        let load_byte = |d: u8| vec![0x0f, 0xb6, 0x47, d];
        let silent = |codes: [Vec<u8>; 4]| {
            let (_, reads, writes) = of(&codes.each_ref().map(Vec::as_slice));
            reads + writes
        };
        assert_eq!(silent([0, 8, 16, 64].map(store)), 2);
        assert_eq!(silent([16, 0, 64, 8].map(store)), 2, "in any order");
        assert_eq!(silent([0, 40, 80, 120].map(store)), 0);
        assert_eq!(silent([0, 8, 16, 24].map(indexed)), 2);
        assert_eq!(silent([0, 8, 16, 24].map(load)), 0, "these may be addresses");
        assert_eq!(silent([0, 8, 16, 24].map(load_byte)), 2);
        assert_eq!(silent([store(0), indexed(8), store(16), store(120)]), 0, "another place");
    }

    #[test]
    fn the_stack_pointer_is_followed() {
        let push = |register: u8| vec![0x50 + register];
        let pop = |register: u8| vec![0x58 + register];
        // call rel32; ret.
        let (call, ret) = (vec![0xe8, 0, 0, 0, 0], vec![0xc3]);
        let grow = vec![0x48, 0x83, 0xec, 0x28]; // sub $0x28,%rsp
        let block = [push(5), push(3), push(1), grow, push(0), call];
        let (reported, reads, writes) = of(&block.each_ref().map(Vec::as_slice));
        // -8, -16, -24, -72, -80: the call's access is at -80, and -72 is more than a line below
        // -8.
        assert_eq!((reads, writes), (0, 2), "{reported:?}");
        let block = [pop(0), pop(1), pop(3), ret];
        let (reported, reads, writes) = of(&block.each_ref().map(Vec::as_slice));
        assert_eq!((reads, writes), (2, 0));
        assert!(reported[0].0 && reported[3].0 && !reported[1].0, "{reported:?}");
    }

    #[test]
    fn places_relative_to_the_instruction_are_the_same_from_everywhere() {
        // mov 0x100(%rip),%eax, and the same from seven bytes on with one that is six long.
        let one: &[u8] = &[0x8b, 0x05, 0x00, 0x01, 0x00, 0x00];
        let two: &[u8] = &[0x8b, 0x0d, 0xfa, 0x00, 0x00, 0x00];
        assert_eq!(of(&[one, two]).1, 1);
        assert_eq!(of(&[one, one]).1, 0);
        // %fs:0x100 and 0x100 are different places.
        let thread: &[u8] = &[0x64, 0x8b, 0x04, 0x25, 0x00, 0x01, 0x00, 0x00];
        let plain: &[u8] = &[0x8b, 0x04, 0x25, 0x00, 0x01, 0x00, 0x00];
        assert_eq!(of(&[thread, plain, thread]).1, 1);
    }

    #[test]
    fn values_are_reported_of_loads_that_replace_a_register() {
        let value = |code: &[u8]| plan(0, [code].into_iter()).reported[0].value;
        let loads: [&[u8]; 6] = [
            LOAD_0,
            &[0x63, 0x07],                   // movslq (%rdi),%rax but for its prefix
            &[0x0f, 0xb7, 0x07],             // movzwl (%rdi),%eax
            &[0x48, 0x0f, 0x44, 0x07],       // cmove (%rdi),%rax
            &[0x48, 0x87, 0x07],             // xchg %rax,(%rdi)
            &[0xf0, 0x48, 0x0f, 0xc1, 0x07], // lock xadd %rax,(%rdi)
        ];
        for code in loads {
            assert!(value(code), "{code:x?}");
        }
        let others: [&[u8]; 6] = [
            &[0x48, 0x03, 0x07],       // add (%rdi),%rax
            &[0x48, 0x3b, 0x07],       // cmp (%rdi),%rax
            &[0xf0, 0x48, 0x01, 0x07], // lock add %rax,(%rdi)
            &[0xf3, 0x48, 0xa5],       // rep movsq
            &[0xf3, 0x0f, 0x6f, 0x07], // movdqu (%rdi),%xmm0
            &[0xff, 0x27],             // jmp *(%rdi)
        ];
        for code in others {
            assert!(!value(code), "{code:x?}");
        }
    }

    #[test]
    fn what_an_instruction_does_not_do_is_not_asked_for() {
        let ways = |code: &[u8]| of(&[code]).0[0];
        assert_eq!(ways(NEXT), (false, false));
        assert_eq!(ways(&[0x48, 0x8d, 0x07]), (false, false), "lea (%rdi),%rax");
        assert_eq!(ways(LOAD_0), (true, false));
        assert_eq!(ways(STORE_8), (false, true));
        assert_eq!(ways(&[0x48, 0x01, 0x07]), (true, true), "add %rax,(%rdi)");
        assert_eq!(ways(&[0xe8, 0, 0, 0, 0]), (false, true), "call");
        assert_eq!(ways(&[0xc3]), (true, false), "ret");
        assert_eq!(ways(&[0x0f, 0xae, 0x07]), (false, true), "fxsave (%rdi)");
        assert_eq!(ways(&[0x06]), (true, true), "no instruction");
    }

    #[test]
    fn blocks_go_back_by_jumps_and_calls_and_by_what_is_not_known() {
        let back = |code: &[u8]| plan(0x40_0000, [LOAD_0, code].into_iter()).goes_back;
        let going: [&[u8]; 5] = [
            &[0x75, 0xfb],                   // jne to the block's beginning
            &[0xeb, 0xfe],                   // jmp to itself
            &[0xe8, 0xf6, 0xff, 0xff, 0xff], // call what is before
            &[0xff, 0xe0],                   // jmp *%rax
            &[0xff, 0xd0],                   // call *%rax
        ];
        for code in going {
            assert!(back(code), "{code:x?}");
        }
        let others: [&[u8]; 5] = [NEXT, &[0x75, 0x10], &[0xeb, 0x10], &[0xe8, 0, 1, 0, 0], &[0xc3]];
        for code in others {
            assert!(!back(code), "{code:x?}");
        }
    }

    #[test]
    fn elements_large_and_strange_accesses_stay() {
        let Plan { reported, .. } = plan(0, [&[0xf3, 0xaa][..], &[0xaa]].into_iter());
        assert!(
            reported[0].elements && reported[0].writes && !reported[1].elements,
            "rep stosb, stosb"
        );
        let wide: &[u8] = &[0xc5, 0xfe, 0x6f, 0x07]; // vmovdqu (%rdi),%ymm0
        assert_eq!(of(&[wide, wide]).1, 0);
        let gather: &[u8] = &[0xc4, 0xe2, 0x69, 0x90, 0x04, 0x8f]; // vpgatherdd
        assert_eq!(of(&[gather, gather]).1, 0);
        assert_eq!(of(&[&[0x06], &[], &[0x0f]]).1, 0, "no instructions");
        let exchange: &[u8] = &[0x48, 0x0f, 0xb1, 0x0f]; // cmpxchg %rcx,(%rdi)
        assert_eq!(of(&[exchange, exchange]).2, 0, "may or may not write");
    }
}
