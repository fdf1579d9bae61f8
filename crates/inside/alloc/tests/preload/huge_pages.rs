//! Huge pages of the kernel: who gets them, and that returned memory stays returned.

crate::harness::cases! { "huge_pages.c": small_objects_have_them objects_that_are_written_later_have_them returned_memory_is_not_filled_again }
