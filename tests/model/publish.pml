/* Model of driver/many_producers.h: PRODUCERS threads put requests of one or two blocks into a ring, a device takes what
 * is published and completes it. Every step below is one atomic access of the code. Checked: no block is overwritten
 * before its request completed, none is published before it was filled, the published index only grows, and when all
 * producers are done everything has been published and taken.
 *
 * With FORGETFUL the publisher does not look again before it stops, and with HASTY it marks blocks before it fills them:
 * the model must find both.
 *
 *   spin -a publish.pml && gcc -O2 -DSAFETY -o pan pan.c && ./pan
 */
#ifndef PRODUCERS
#define PRODUCERS 3
#endif
#ifndef REQUESTS
#define REQUESTS 2 /* of each producer */
#endif
#define BLOCKS 4
#define MAX_REQUESTS 2 /* BLOCKS / the two blocks that a request may take */
#define TOTAL (PRODUCERS * REQUESTS)

/* reserved: blocks and requests in one word, changed together */
byte reserved_block = 0, reserved_request = 0;
byte completed = 0;
byte ready[BLOCKS];     /* end of the request that was last here */
byte asked = 0;
byte published = 0;     /* owned by whoever publishes */

byte record = 0;        /* doorbell record: what the device reads */
byte ends[TOTAL];       /* per request: where it ends, for the device */
byte filled[BLOCKS];    /* 1: holds a request that is not completed */
byte posted = 0, taken = 0;
bool publishing = false;

proctype Producer(byte first_size) {
  byte block, request, size, i, end, answered, before, prior, left = REQUESTS;
  size = first_size;
  do
  :: left == 0 -> break
  :: left > 0 ->
    /* reserve(): load, check against completed, compare-and-swap */
    do
    :: atomic { block = reserved_block; request = reserved_request };
       if
       :: request - completed >= MAX_REQUESTS -> /* full: nothing reserved; tries again when there is room */
          (reserved_request - completed < MAX_REQUESTS)
       :: else ->
          atomic {
            if
            :: reserved_request == request && reserved_block == block ->
               reserved_request = request + 1; reserved_block = block + size; break
            :: else -> skip
            fi
          }
       fi
    od;
    end = block + size;
#ifdef HASTY
    ready[block % BLOCKS] = end;
#endif
    /* fill */
    i = block;
    do
    :: i == end -> break
    :: else -> atomic { assert(filled[i % BLOCKS] == 0); filled[i % BLOCKS] = 1 }; i++
    od;
    ends[request] = end;
    /* ready() */
    i = end - 1;
    do
    :: i == block -> break
    :: else -> ready[i % BLOCKS] = end; i--
    od;
    ready[block % BLOCKS] = end;
    posted++;
    /* publish() */
    atomic { prior = asked; asked++ };
    if
    :: prior != 0 -> skip
    :: else ->
       answered = 1;
       do
       :: atomic { assert(!publishing); publishing = true };
          before = published;
          do
          :: ready[published % BLOCKS] > published -> published = ready[published % BLOCKS]
          :: else -> break
          od;
          if
          :: published != before -> atomic { assert(published > record); record = published }
          :: else -> skip
          fi;
#ifdef FORGETFUL
          atomic { publishing = false; prior = answered; asked = 0 };
#else
          atomic { publishing = false; prior = asked; asked = asked - answered };
#endif
          if
          :: prior == answered -> break
          :: else -> answered = prior - answered
          fi
       od
    fi;
    left--;
    size = 3 - size
  od
}

proctype Device() {
  byte index = 0, i;
  do
  :: taken == TOTAL -> break
  :: index < record ->
     /* Takes one request, reads its blocks, and completes it. */
     assert(ends[taken] > index && ends[taken] <= record);
     i = index;
     do
     :: i == ends[taken] -> break
     :: else -> atomic { assert(filled[i % BLOCKS] == 1); filled[i % BLOCKS] = 0 }; i++
     od;
     index = ends[taken];
     taken++;
     completed = taken
  od
}

init {
  byte i = 0;
  atomic {
    do
    :: i == BLOCKS -> break
    :: else -> ready[i] = i; i++
    od;
    i = 0;
    do
    :: i == PRODUCERS -> break
    :: else -> run Producer(1 + (i & 1)); i++
    od;
    run Device()
  }
  /* Everything posted is published and taken: a Device that waits for ever would be an invalid end state. */
}
