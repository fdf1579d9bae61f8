//! One value on every node, which never changes.
//!
//! ```text
//!  one mapping: | header: where the copies are | copy on node 0 | copy on node 1 | ...
//!                                              each on pages of its own
//! ```

use core::alloc::Layout;
use core::fmt;
use core::marker::PhantomData;
use core::mem::ManuallyDrop;
use core::ops::Deref;
use core::ptr::{self, NonNull, null_mut, slice_from_raw_parts};

use numapilot_syscall::caller::page_size;
use numapilot_syscall::policy::{self, Mode};

use crate::error::Error;
use crate::kernel;
use crate::nodes::{MAX_COPIES, Nodes};
use crate::preference::Preference;
use crate::swap;
use crate::sync::atomic::AtomicPtr;

/// Copies of at least this size begin at a boundary of huge pages.
const HUGE_BYTES: usize = 2 << 20;

/// The header of the mapping.
#[repr(C)]
pub struct Version<T: ?Sized> {
    count: usize,
    nodes: &'static Nodes,
    copies: [*const T; MAX_COPIES],
    next: AtomicPtr<Self>,
    bytes: usize,
    /// Bytes from the start of one copy to that of the next.
    stride: usize,
}

impl<T: ?Sized> swap::Version for Version<T> {
    fn next(&self) -> &AtomicPtr<Self> {
        &self.next
    }
}

impl<T: ?Sized> Version<T> {
    /// The copy nearest to the calling thread.
    #[inline]
    pub fn local(&self) -> *const T {
        // With one copy there is no need to find the node.
        let copy = if self.count == 1 { 0 } else { self.nodes.current() };
        self.copies[copy % MAX_COPIES]
    }
}

/// One value with a copy on every node that the process may use. Each copy has its own pages.
///
/// ```
/// use numapilot_replicate::Copies;
///
/// let primes = Copies::from_slice(&[2, 3, 5, 7])?;
/// assert_eq!(primes.local()[3], 7);
/// # Ok::<(), numapilot_replicate::Error>(())
/// ```
pub struct Copies<T: ?Sized>(NonNull<Version<T>>);

// SAFETY: it owns its copies, as a box of each would.
unsafe impl<T: ?Sized + Send> Send for Copies<T> {}
// SAFETY: a shared reference gives only `&T`.
unsafe impl<T: ?Sized + Sync> Sync for Copies<T> {}

impl<T: Copy> Copies<[T]> {
    /// Copies of a slice.
    ///
    /// # Errors
    /// [`Error::NoMemory`], [`Error::TooLarge`].
    pub fn from_slice(values: &[T]) -> Result<Self, Error> {
        Self::build(Layout::for_value(values), |_, place| {
            let place = place.cast::<T>();
            // SAFETY: new memory of the size and alignment of `values`.
            unsafe { ptr::copy_nonoverlapping(values.as_ptr(), place, values.len()) };
            Ok(slice_from_raw_parts(place, values.len()))
        })
    }
}

impl<T> Copies<[T]> {
    /// Copies of a slice of `len` elements. `make` is called for every element of every copy.
    ///
    /// # Errors
    /// [`Error::NoMemory`], [`Error::TooLarge`].
    pub fn from_fn(len: usize, mut make: impl FnMut(usize) -> T) -> Result<Self, Error> {
        let layout = Layout::array::<T>(len).map_err(|_| Error::TooLarge)?;
        Self::build(layout, |_, place| {
            let place = place.cast::<T>();
            for index in 0..len {
                // SAFETY: new memory of the size and alignment of `len` elements.
                unsafe { place.add(index).write(make(index)) };
            }
            Ok(slice_from_raw_parts(place, len))
        })
    }
}

impl Copies<[u8]> {
    /// Copies of `len` bytes, which are 0 until `fill` writes them.
    pub(crate) fn filled(
        len: usize,
        mut fill: impl FnMut(&mut [u8]) -> Result<(), Error>,
    ) -> Result<Self, Error> {
        let layout = Layout::array::<u8>(len).map_err(|_| Error::TooLarge)?;
        Self::build(layout, |_, place| {
            // SAFETY: new zeroed memory of that size, which is not shared.
            fill(unsafe { core::slice::from_raw_parts_mut(place, len) })?;
            Ok(slice_from_raw_parts(place, len))
        })
    }
}

impl<T> Copies<T> {
    /// A value for each node, made for that node. Memory that the thread touches first while `make`
    /// runs comes from that node. This includes what the value allocates, if its allocator takes
    /// new memory for it.
    ///
    /// # Errors
    /// [`Error::NoMemory`], [`Error::TooLarge`].
    pub fn per_node(mut make: impl FnMut(u32) -> T) -> Result<Self, Error> {
        Self::build(Layout::new::<T>(), |node, place| {
            let policy = node.and_then(Preference::of);
            let place = place.cast::<T>();
            // SAFETY: new memory of the size and alignment of a value.
            unsafe { place.write(make(node.unwrap_or(0))) };
            drop(policy);
            Ok(place.cast_const())
        })
    }
}

impl<T: ?Sized> Copies<T> {
    /// Maps memory for copies of this layout. `make` writes each copy into its place, whose pages
    /// come from the copy's node unless there is only one node.
    fn build(
        layout: Layout,
        mut make: impl FnMut(Option<u32>, *mut u8) -> Result<*const T, Error>,
    ) -> Result<Self, Error> {
        let page = page_size();
        let nodes =
            Nodes::get().map_err(|_| Error::NoMemory { bytes: size_of::<Nodes>(), copies: 1 })?;
        let header = size_of::<Version<T>>().next_multiple_of(page);
        let unit = if layout.size() < HUGE_BYTES { page } else { HUGE_BYTES }.max(layout.align());
        let sizes = || {
            let stride = layout.size().max(1).checked_next_multiple_of(unit)?;
            let all = stride.checked_mul(nodes.count())?;
            Some((stride, all.checked_add(header)?.checked_add(unit)?))
        };
        let (stride, bytes) = sizes().ok_or(Error::TooLarge)?;
        let start = kernel::map(bytes).map_err(|_| Error::NoMemory {
            bytes: stride * nodes.count(),
            copies: nodes.count(),
        })?;
        let version = start.cast::<Version<T>>();
        let first = (start.as_ptr() as usize + header).next_multiple_of(unit);
        // SAFETY: new memory, page aligned, with room for a header, whose pointers are written
        // before they are used.
        unsafe {
            let version = version.as_ptr();
            (&raw mut (*version).count).write(0);
            (&raw mut (*version).nodes).write(nodes);
            (&raw mut (*version).next).write(AtomicPtr::new(null_mut()));
            (&raw mut (*version).bytes).write(bytes);
            (&raw mut (*version).stride).write(stride);
        }
        // From here on, a panic drops the copies that were made.
        let copies = Self(version);
        for copy in 0..nodes.count() {
            let place = start.as_ptr().with_addr(first + copy * stride);
            let node = (nodes.count() > 1).then(|| nodes.id(copy));
            if let Some(node) = node {
                // If the kernel refuses, the pages lie where they are touched; `homes` reports
                // that.
                let _ = policy::set_of_range(
                    place as usize,
                    stride,
                    Mode::Preferred,
                    &policy::only(node),
                    false,
                );
            }
            let made = make(node, place)?;
            // SAFETY: only this call uses the header.
            unsafe {
                (*version.as_ptr()).copies[copy] = made;
                (*version.as_ptr()).count = copy + 1;
            }
        }
        Ok(copies)
    }

    fn version(&self) -> &Version<T> {
        // SAFETY: live and complete for as long as `self`.
        unsafe { self.0.as_ref() }
    }

    /// The copy nearest to the calling thread. The thread may move to another node at any time; the
    /// copy stays valid.
    #[inline]
    #[must_use]
    pub fn local(&self) -> &T {
        // SAFETY: a copy lives as long as `self`.
        unsafe { &*self.version().local() }
    }

    /// All copies, each with its node.
    pub fn each(&self) -> impl Iterator<Item = (u32, &T)> {
        let version = self.version();
        let copies = version.copies.iter().take(version.count).enumerate();
        // SAFETY: copies live as long as `self`.
        copies.map(|(copy, value)| (version.nodes.id(copy), unsafe { &**value }))
    }

    /// For each copy, where its pages are.
    ///
    /// # Errors
    /// [`Error::NotRehomed`] when the kernel does not say.
    pub fn homes(&self) -> impl Iterator<Item = Result<Home, Error>> {
        self.each().map(|(node, copy)| {
            let mut home = Home { node, pages: 0, at_home: 0 };
            let start = ptr::from_ref(copy).cast::<u8>() as usize;
            crate::rehome::each_page(start, size_of_val(copy), |_, on| {
                home.pages += usize::from(on >= 0);
                home.at_home += usize::from(on == node.cast_signed());
            })?;
            Ok(home)
        })
    }

    /// Hands the copies over to be published.
    pub(crate) fn into_raw(self) -> *mut Version<T> {
        ManuallyDrop::new(self).0.as_ptr()
    }

    /// # Safety
    /// `version` is from [`Copies::into_raw`], and nothing else uses it.
    pub(crate) unsafe fn from_raw(version: *mut Version<T>) -> Option<Self> {
        NonNull::new(version).map(Self)
    }
}

impl<T: ?Sized> Drop for Copies<T> {
    fn drop(&mut self) {
        // SAFETY: nothing else uses the version; each copy is dropped once, the header last.
        unsafe {
            let version = self.0.as_ptr();
            for copy in 0..(*version).count {
                ptr::drop_in_place((*version).copies[copy].cast_mut());
            }
            kernel::unmap(self.0.cast(), (*version).bytes);
        }
    }
}

impl<T: ?Sized> fmt::Debug for Copies<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let version = self.version();
        f.debug_struct("Copies")
            .field("count", &version.count)
            .field("stride", &version.stride)
            .finish_non_exhaustive()
    }
}

/// Where the pages of a copy are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Home {
    /// The node of the copy.
    pub node: u32,
    /// Pages that are in memory.
    pub pages: usize,
    /// How many of these pages are on the node.
    pub at_home: usize,
}

/// The copies of the version that a reader reads.
#[derive(Debug)]
pub struct Current<'r, T: ?Sized>(ManuallyDrop<Copies<T>>, PhantomData<&'r Copies<T>>);

impl<T: ?Sized> Current<'_, T> {
    /// # Safety
    /// The version lives as long as `'r`.
    pub(crate) unsafe fn of(version: NonNull<Version<T>>) -> Self {
        Self(ManuallyDrop::new(Copies(version)), PhantomData)
    }
}

impl<T: ?Sized> Deref for Current<'_, T> {
    type Target = Copies<T>;

    fn deref(&self) -> &Copies<T> {
        &self.0
    }
}
