//! The allocator gives what a layout asks for: aligned blocks of their own, whose content survives a reallocation.
#![allow(
    unsafe_code,
    reason = "blocks of any layout come from unsafe functions only; each block is freed with its own layout"
)]
#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::alloc::{GlobalAlloc as _, Layout};

use placewright_allocator::Allocator;

const SIZES: [usize; 19] = [
    1, 7, 8, 9, 15, 16, 17, 24, 40, 48, 100, 144, 500, 1023, 1025, 3000, 9000, 70_000, 3_000_000,
];
const ALIGNMENTS: [usize; 9] = [1, 2, 4, 8, 16, 32, 64, 128, 4096];

/// A block with its layout.
struct Block {
    address: *mut u8,
    layout: Layout,
}

impl Block {
    fn check_alignment(&self) {
        assert!(!self.address.is_null());
        let alignment = self.layout.align();
        assert_eq!(self.address.addr() % alignment, 0, "{:?}", self.layout);
    }

    fn fill(&self, byte: u8) {
        // SAFETY: the block has as many bytes as its layout.
        unsafe { self.address.write_bytes(byte, self.layout.size()) }
    }

    /// Whether the first `length` bytes are all this byte.
    fn begins_with(&self, byte: u8, length: usize) -> bool {
        // SAFETY: callers pass at most the size of the block, whose bytes were all written.
        let bytes = unsafe { std::slice::from_raw_parts(self.address, length) };
        bytes.iter().all(|found| *found == byte)
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        // SAFETY: the block comes from this allocator, with this layout.
        unsafe { Allocator.dealloc(self.address, self.layout) }
    }
}

fn layouts() -> impl Iterator<Item = Layout> {
    SIZES.into_iter().flat_map(|size| {
        ALIGNMENTS.map(|alignment| Layout::from_size_align(size, alignment).unwrap())
    })
}

#[test]
fn blocks_are_aligned_and_do_not_overlap() {
    let mut blocks = Vec::new();
    // Several of each layout, so that the free blocks of a size run out now and then.
    for round in 0..20 {
        for layout in layouts().filter(|layout| layout.size() < 10_000) {
            // SAFETY: the size is not 0.
            let address = unsafe { Allocator.alloc(layout) };
            let block = Block { address, layout };
            block.check_alignment();
            block.fill(blocks.len() as u8);
            blocks.push(block);
        }
        // Every third block is freed, and its room is used again.
        if round % 4 == 3 {
            let mut index = 0;
            blocks.retain(|_| {
                index += 1;
                index % 3 != 0
            });
            for (index, block) in blocks.iter().enumerate() {
                block.fill(index as u8);
            }
        }
    }
    for (index, block) in blocks.iter().enumerate() {
        assert!(block.begins_with(index as u8, block.layout.size()));
    }
}

#[test]
fn zeroed_blocks_are_zero() {
    for layout in layouts() {
        for _ in 0..3 {
            // SAFETY: the size is not 0.
            let address = unsafe { Allocator.alloc_zeroed(layout) };
            let block = Block { address, layout };
            block.check_alignment();
            assert!(block.begins_with(0, layout.size()), "{layout:?}");
            // The next block in the same place must not have these bytes.
            block.fill(0xff);
        }
    }
}

#[test]
fn reallocated_blocks_keep_their_content_and_alignment() {
    for layout in layouts() {
        for new_size in SIZES {
            // SAFETY: the size is not 0.
            let address = unsafe { Allocator.alloc(layout) };
            let mut block = Block { address, layout };
            block.fill(0x5a);
            // SAFETY: the block comes from this allocator with this layout, and the new size is not 0.
            block.address = unsafe { Allocator.realloc(block.address, layout, new_size) };
            block.layout = Layout::from_size_align(new_size, layout.align()).unwrap();
            block.check_alignment();
            assert!(block.begins_with(0x5a, layout.size().min(new_size)));
        }
    }
}
