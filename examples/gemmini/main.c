/* Runs a network on Gemmini: issues the commands of network.h, one after the other, and compares the output.

   For the processor beside Gemmini, Rocket on bare metal:
       riscv64-unknown-elf-gcc -march=rv64gc -mcmodel=medany -ffreestanding -O2 -c main.c
   Elsewhere, it prints what it would issue, with the memory at the addresses that the commands were written for. */

#include <stddef.h>
#include <stdint.h>

#include "network.h" /* WORDS, MEMORY, BASE, OUTPUT, EXPECTED */

#ifdef __riscv

/* An instruction of the custom opcode 3 reads two registers; the function is a part of it. */
#define ISSUE(function, first, second) \
    case function: \
        __asm__ volatile(".insn r CUSTOM_3, 3, " #function ", x0, %0, %1" : : "r"(first), "r"(second) : "memory"); \
        break;

static void issue(uint64_t function, uint64_t first, uint64_t second)
{
    switch (function) {
        ISSUE(0, first, second)
        ISSUE(1, first, second)
        ISSUE(2, first, second)
        ISSUE(3, first, second)
        ISSUE(4, first, second)
        ISSUE(5, first, second)
        ISSUE(6, first, second)
        ISSUE(7, first, second)
        ISSUE(8, first, second)
        ISSUE(9, first, second)
        ISSUE(10, first, second)
        ISSUE(11, first, second)
        ISSUE(12, first, second)
        ISSUE(13, first, second)
        ISSUE(14, first, second)
        ISSUE(15, first, second)
        ISSUE(16, first, second)
        ISSUE(17, first, second)
        ISSUE(18, first, second)
        ISSUE(19, first, second)
        ISSUE(20, first, second)
        ISSUE(21, first, second)
    default: /* 127: what Gemmini has written is in memory from here on */
        __asm__ volatile("fence" : : : "memory");
    }
}

static uint64_t moved(void) { return (uint64_t)(uintptr_t)MEMORY - BASE; }

#else

#include <stdio.h>

static void issue(uint64_t function, uint64_t first, uint64_t second)
{
    printf("%llu %llu %llu\n", (unsigned long long)function, (unsigned long long)first, (unsigned long long)second);
}

static uint64_t moved(void) { return 0; }

#endif

/* Which of the two registers of a command hold addresses: 1 the first, 3 both. */
static int addresses(uint64_t function)
{
    switch (function) {
    case 1:
    case 2:
    case 3:
    case 14:
        return 1;
    case 10:
    case 11:
    case 20:
    case 21:
        return 3;
    default:
        return 0;
    }
}

int main(void)
{
    for (size_t n = 0; n < sizeof WORDS / sizeof *WORDS; n += 3) {
        uint64_t first = WORDS[n + 1], second = WORDS[n + 2];
        int which = addresses(WORDS[n]);
        if (which & 1 && first) first += moved(); /* 0 is no address: Gemmini reads zeros, or leaves out */
        if (which & 2 && second) second += moved();
        issue(WORDS[n], first, second);
    }
    int differing = 0;
    for (size_t n = 0; n < sizeof EXPECTED; n++) differing += MEMORY[OUTPUT + n] != EXPECTED[n];
    return differing;
}
