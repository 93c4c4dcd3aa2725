//! eBPF as plain data: instructions, assembler and disassembler, helper and map tables, BTF, images, kernel facts, an interpreter for tests. No I/O, no unsafe.
