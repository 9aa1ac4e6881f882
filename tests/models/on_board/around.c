/* The program around a network on a board of qemu's: it calls the network for each input, and counts.
 *
 * By Arm's semihosting it reads the file `job`, which holds inputs one after another, and writes `results`: the
 * network's memory in bytes, then for each input the output and the ticks of SysTick that the call took. All integers
 * have 32 bits, the lowest byte first. The status is 1 if the network cannot be made ready, 2 if a call fails, 3 if a
 * file cannot be opened. board.ld puts all of this file into a section of its own, apart from the network's code. */

#include <stdint.h>

#include "network.h"

#define REGISTER(address) (*(volatile uint32_t *)(address))
#define ACCESS REGISTER(0xe000ed88u)  /* CPACR */
#define CONTROL REGISTER(0xe000e010u) /* SysTick's */
#define RELOAD REGISTER(0xe000e014u)
#define TICKS REGISTER(0xe000e018u)
#define MASK 0xffffffu

enum { OPEN = 0x01, WRITE = 0x05, READ = 0x06, EXIT = 0x20 };
enum { EXITED = 0x20026, READ_BYTES = 1, WRITE_BYTES = 5 };

extern uint32_t stack_top;
extern void (*const constructors_begin[])(void), (*const constructors_end[])(void);

static uint32_t ask(uint32_t what, uint32_t first, uint32_t second, uint32_t third) {
  volatile uint32_t block[3] = {first, second, third};
  register uint32_t r0 __asm__("r0") = what;
  register volatile uint32_t *r1 __asm__("r1") = block;
  __asm__ volatile("bkpt 0xab" : "+r"(r0) : "r"(r1) : "memory");
  return r0;
}

static void leave(uint32_t status) {
  for (;;) ask(EXIT, EXITED, status, 0);
}

static uint32_t opened(const char *name, uint32_t mode, uint32_t length) {
  uint32_t file = ask(OPEN, (uint32_t)name, mode, length);
  if (file == UINT32_MAX) leave(3);
  return file;
}

/* Whether all bytes were read or written. */
static int moved(uint32_t what, uint32_t file, const void *at, uint32_t bytes) {
  while (bytes) {
    uint32_t left = ask(what, file, (uint32_t)at, bytes);
    if (left >= bytes) return 0;
    at = (const char *)at + (bytes - left);
    bytes = left;
  }
  return 1;
}

void reset(void);

void reset(void) {
  struct network network;
  uint32_t job, results, before, ticks;
  void (*const *constructor)(void);
  ACCESS = 0xf00000u; /* registers of floats and vectors */
  for (constructor = constructors_begin; constructor != constructors_end; ++constructor) (*constructor)();
  job = opened("job", READ_BYTES, 3);
  results = opened("results", WRITE_BYTES, 7);
  if (network_begin(&network)) leave(1);
  moved(WRITE, results, &network.memory, 4);
  RELOAD = MASK;
  TICKS = 0;
  CONTROL = 5; /* the processor's clock, no interrupt */
  while (moved(READ, job, network.input, network.input_bytes)) {
    before = TICKS;
    if (network_run()) leave(2);
    ticks = (before - TICKS) & MASK;
    moved(WRITE, results, network.output, network.output_bytes);
    moved(WRITE, results, &ticks, 4);
  }
  leave(0);
}

/* Where the processor starts: its stack, and its code. */
__attribute__((section(".vectors"), used)) static const struct {
  const void *stack;
  void (*reset)(void);
} vectors = {&stack_top, reset};
