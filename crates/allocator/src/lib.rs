//! The memory allocator of the programs: mimalloc.
//!
//! The crate `mimalloc` asks for each allocation with its alignment (`mi_malloc_aligned`). mimalloc 3 serves such a
//! request from the free blocks of its size only if the size is a power of two or a block is at hand at once, and
//! otherwise from the blocks of a larger size, on its slow path. This allocator asks without the alignment wherever
//! mimalloc guarantees it anyway, which is nearly always.
#![allow(
    unsafe_code,
    reason = "the trait `GlobalAlloc` and mimalloc's functions are unsafe; each use says why it is sound"
)]

use std::alloc::{GlobalAlloc, Layout};

use libmimalloc_sys::{
    mi_free, mi_malloc, mi_malloc_aligned, mi_realloc, mi_realloc_aligned, mi_zalloc,
    mi_zalloc_aligned,
};

/// The alignment that mimalloc guarantees for blocks of at least this size (`MI_MAX_ALIGN_SIZE`).
const ALIGNMENT_GUARANTEED: usize = 16;

/// mimalloc as the allocator of a program.
#[derive(Debug)]
pub struct Allocator;

/// Whether each block of mimalloc that has room for `size` bytes has this alignment.
///
/// A block is aligned to 16 bytes if its size is at least 16, and to 8 bytes otherwise. A type's size is a multiple of its
/// alignment, but a layout's need not be, so the size has to reach the alignment.
const fn is_guaranteed(size: usize, alignment: usize) -> bool {
    alignment <= ALIGNMENT_GUARANTEED && alignment <= size
}

// SAFETY: mimalloc's functions return null or a block that is at least as large and as aligned as they were asked for:
// the functions with an alignment by their contract, the others by `is_guaranteed`. They do not unwind. `mi_free` and
// both functions for reallocation take blocks of each of the other functions.
unsafe impl GlobalAlloc for Allocator {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let (size, alignment) = (layout.size(), layout.align());
        if is_guaranteed(size, alignment) {
            // SAFETY: `mi_malloc` takes every size.
            unsafe { mi_malloc(size).cast() }
        } else {
            // SAFETY: a layout's alignment is a power of two.
            unsafe { mi_malloc_aligned(size, alignment).cast() }
        }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        let (size, alignment) = (layout.size(), layout.align());
        if is_guaranteed(size, alignment) {
            // SAFETY: as in `alloc`.
            unsafe { mi_zalloc(size).cast() }
        } else {
            // SAFETY: as in `alloc`.
            unsafe { mi_zalloc_aligned(size, alignment).cast() }
        }
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, _: Layout) {
        // SAFETY: the caller passes a block of this allocator, that is of mimalloc, and does not use it again.
        unsafe { mi_free(block.cast()) }
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        let alignment = layout.align();
        if is_guaranteed(new_size, alignment) {
            // SAFETY: the caller passes a block of mimalloc, and uses only the returned one unless that is null. A block
            // that stays where it is keeps its alignment, and a new one has it by `is_guaranteed`.
            unsafe { mi_realloc(block.cast(), new_size).cast() }
        } else {
            // SAFETY: as before, and a layout's alignment is a power of two.
            unsafe { mi_realloc_aligned(block.cast(), new_size, alignment).cast() }
        }
    }
}
