//! The description of a run of pages: a span of small objects, a large block, or free pages.

/// The use of a run of pages. Only its first page has it, and the last one of free pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Use {
    /// No run begins here.
    Nothing = 0,
    /// Free pages, in the page heap.
    Free = 1,
    /// Objects of a class.
    Small = 2,
    /// A large block.
    Large = 3,
    /// Address space that was never used, for the block before it (`crate::page_heap::room`).
    Room = 4,
}

/// The description of a run, in the table by page number. All zeroes: nothing begins here.
#[repr(C)]
pub struct Span {
    /// What begins here.
    pub state: Use,
    /// Pages back to the first one of a span of small objects.
    pub back: u8,
    /// Free pages: their contents are zeroes. Small objects: the gaps between them are
    /// given back to the kernel.
    pub zero: bool,
    /// Small objects: on the list of spans with free objects. A large block: its contents were
    /// moved there, or away, so that it has a mapping of its own (`crate::large::relocate`).
    pub listed: bool,
    /// Pages of the run.
    pub pages: u32,
    /// Small objects: how many are free here, that is, in no magazine. A large block: the number
    /// under which the heap profile has recorded it, or 0.
    pub free: u32,
    /// Free pages: when they became free, in milliseconds. Small objects: when one was last
    /// returned. A large block: mappings that it adds to the process
    /// (`crate::page_heap::mapping_budget`).
    pub since: u32,
    /// Neighbours on a list of free pages of this length, or of spans with free objects. A large
    /// block: see [`Self::cuts`]; the same holds for the next three fields.
    pub next: u32,
    /// As above.
    pub previous: u32,
    /// Neighbours among the free pages that take memory, oldest first.
    pub younger: u32,
    /// As above.
    pub older: u32,
}

impl Span {
    /// A page at which no run begins.
    pub const NOTHING: Self = Self {
        state: Use::Nothing,
        back: 0,
        zero: false,
        listed: false,
        pages: 0,
        free: 0,
        since: 0,
        next: 0,
        previous: 0,
        younger: 0,
        older: 0,
    };

    /// Where one mapping of a large block ends and the next begins, because the block was moved and
    /// then grew: in pages from its start, ascending, then zeroes (`crate::large::relocate`).
    pub fn cuts(&self) -> [u32; CUTS] {
        [self.next, self.previous, self.younger, self.older]
    }

    /// Sets all of them.
    pub fn set_cuts(&mut self, cuts: [u32; CUTS]) {
        [self.next, self.previous, self.younger, self.older] = cuts;
    }

    /// Adds one after the others, if there is room.
    pub fn add_cut(&mut self, page: u32) {
        let mut cuts = self.cuts();
        if let Some(free) = cuts.iter_mut().find(|cut| **cut == 0) {
            *free = page;
        }
        self.set_cuts(cuts);
    }
}

/// Most cuts of a large block.
pub const CUTS: usize = 4;

const _: () = assert!(size_of::<Span>() == 32);
