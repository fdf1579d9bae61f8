//! The functions of the C library and the C++ operators, as their standards and manuals specify.

use crate::harness::{DEBUG, Subject};

mod functions {
    crate::harness::cases! { "conformance.c":
        malloc_sizes every_size_to_70000 blocks_do_not_overlap malloc_zero malloc_too_much
        usable_size calloc_zeroed calloc_zeroed_after_reuse calloc_zero_products
        calloc_overflow realloc_of_null realloc_to_zero realloc_keeps_content
        realloc_step_by_step realloc_within_the_block realloc_too_much reallocarray_products
        free_of_null free_keeps_errno success_keeps_errno sized_free alignments
        alignments_that_are_none aligned_too_much posix_memalign_keeps_errno page_alignment
    }
}

mod figures {
    crate::harness::cases! { "figures.c":
        mallinfo2_counts_what_is_in_use mallinfo_is_mallinfo2_as_int malloc_info_writes_xml
        malloc_info_knows_no_options malloc_stats_writes_to_standard_error
        mallopt_takes_what_is_documented malloc_trim_returns_memory the_header_declares_what_is_there
        all_are_of_the_library
    }
}

mod operators {
    crate::harness::cases! { "operators.cpp":
        all_forms_are_here pairs aligned_pairs too_much_throws too_much_without_throwing
        the_new_handler_is_asked a_throwing_handler_is_heard
        a_throwing_handler_without_throwing containers
    }
}

mod lifecycle {
    crate::harness::cases! { "lifecycle.cpp":
        before_main at_exit_handlers thread_local_destructors key_destructors main_leaves
        fork_handlers fork_handlers_of_an_earlier_library vforks libraries_come_and_go signals
        exceptions
    }
}

/// Uses the static library instead of the preloaded one.
fn linked(name: &'static str, options: &[&str]) -> Subject {
    let archive = DEBUG.library("libnumapilot_alloc.a").display().to_string();
    let link = [archive].into_iter().chain(options.iter().map(|&o| o.to_owned())).collect();
    Subject { name, link, preload: None, ..Subject::preloaded() }
}

#[test]
fn linked_into_a_dynamic_program() {
    let subject = linked("linked", &[]);
    subject.all_hold("conformance.c", &[]);
    // The linker takes only what a program references from a static library.
    subject.all_hold("operators.cpp", &["all_forms_are_here"]);
    subject.all_hold("lifecycle.cpp", &[]);
}

#[test]
fn linked_into_a_static_program() {
    let subject = linked("static", &["-static"]);
    subject.all_hold("conformance.c", &[]);
    // dlopen is not available in a static program.
    subject.all_hold("lifecycle.cpp", &["libraries_come_and_go"]);
}
