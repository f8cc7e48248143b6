/* Model of driver/cq_many_pollers.cc: POLLERS threads look at the entries from the consumer index on, copy up to BATCH of
 * them, claim what they copied by one compare-and-swap of the index, and publish the index for the device, which writes
 * an entry again only when the published index lets it. Some entries are unusual: one poller takes such a one alone. One is
 * the title of two compressed ones: one poller alone writes what it stands for, then anybody may claim that.
 * Every step below is one atomic access of the code, but for the copy of an entry, which is two: a number and a check
 * that the device writes one after the other. Checked: every entry is taken once and as it was written, the published
 * index only grows, and it never passes an entry that somebody who will count it has yet to copy.
 *
 * With EARLY a poller claims before it copies, with BACKWARD it publishes whatever it has claimed, and with STALE it takes
 * what it saw as a title without looking again: the model must find them all.
 *
 *   spin -a poll.pml && gcc -O2 -DSAFETY -o pan pan.c && ./pan
 */
#ifndef POLLERS
#define POLLERS 2
#endif
#define ENTRIES 2
#define BATCH 2
#ifndef TOTAL
#define TOTAL 5
#endif
#define UNUSUAL(index) ((index) == 2)
#define IS_TITLE(index) ((index) == 3)
#define TITLE 64       /* of a title's number, beside its entry's */

byte number[ENTRIES];  /* 1 + index of the entry that lies here; 0: none yet */
byte check[ENTRIES];   /* the same, written after it */
byte consumer = 0;     /* what pollers claim from */
byte record = 0;       /* doorbell record: what the device reads */
byte taken[TOTAL];
byte taken_count = 0;
bool alone = false;

proctype Device() {
  byte index = 0;
  do
  :: index == TOTAL -> break
  :: index < TOTAL && IS_TITLE(index) && index + 2 - record <= ENTRIES ->
     check[index % ENTRIES] = index + 1;
     number[index % ENTRIES] = TITLE + index + 1;  /* the entry behind it stays as it was */
     index = index + 2
  :: index < TOTAL && !IS_TITLE(index) && index - record < ENTRIES ->
     check[index % ENTRIES] = index + 1;
     number[index % ENTRIES] = index + 1;  /* the owner bit comes last */
     index++
  od
}

inline publish(to) {
  do
  :: seen = record;
     if
#ifdef BACKWARD
     :: true -> atomic { assert(to >= record); record = to }; break
#else
     :: seen >= to -> break
     :: else ->
        atomic {
          if
          :: record == seen -> assert(to > record); record = to; break
          :: else -> skip
          fi
        }
#endif
     fi
  od
}

proctype Poller() {
  byte first, count, i, seen, value;
  byte copied[BATCH];
  bool claimed;
  do
  :: taken_count == TOTAL -> break
  :: else ->
    first = consumer;
    count = 0;
#ifdef EARLY
    /* Counts what is there, claims it, and only then copies. */
    do
    :: count == BATCH -> break
    :: count < BATCH && first + count < TOTAL && number[(first + count) % ENTRIES] == first + count + 1 &&
       !UNUSUAL(first + count) -> count++
    :: else -> break
    od;
    claimed = false;
    atomic {
      if
      :: count > 0 && consumer == first -> consumer = first + count; claimed = true
      :: else -> skip
      fi
    };
    if
    :: claimed ->
       publish(first + count);
       i = 0;
       do
       :: i == count -> break
       :: else -> copied[i] = check[(first + i) % ENTRIES]; i++
       od
    :: else -> skip
    fi;
#else
    do
    :: count == BATCH -> break
    :: count < BATCH ->
       if
       :: first + count < TOTAL && number[(first + count) % ENTRIES] == first + count + 1 && !UNUSUAL(first + count) ->
          copied[count] = check[(first + count) % ENTRIES];
          count++
       :: else -> break
       fi
    od;
    claimed = false;
    atomic {
      if
      :: count > 0 && consumer == first -> consumer = first + count; claimed = true
      :: else -> skip
      fi
    };
#endif
    if
    :: claimed ->
       i = 0;
       do
       :: i == count -> break
       :: else ->
          atomic {
            assert(copied[i] == first + i + 1);
            assert(taken[first + i] == 0);
            taken[first + i] = 1;
            taken_count++
          };
          i++
       od;
#ifndef EARLY
       publish(first + count)
#endif
    :: else -> skip
    fi;
    /* A title at the front. */
    if
    :: count == 0 && first < TOTAL && number[first % ENTRIES] == TITLE + first + 1 ->
       atomic { claimed = !alone; alone = true };
       if
       :: claimed ->
          if
#ifdef STALE
          :: consumer == first && number[first % ENTRIES] != TITLE + first + 1 ->
             atomic {
               assert(taken[first] == 0);
               taken[first] = 1;
               taken_count++
             };
             consumer = first + 1;
             publish(first + 1)
#endif
          :: consumer == first && number[first % ENTRIES] == TITLE + first + 1 ->
             check[(first + 1) % ENTRIES] = first + 2;
             number[(first + 1) % ENTRIES] = first + 2;
             number[first % ENTRIES] = first + 1
          :: else -> skip
          fi;
          alone = false
       :: else -> skip
       fi
    :: else -> skip
    fi;
    /* An unusual entry at the front. */
    if
    :: count == 0 && first < TOTAL && UNUSUAL(first) && number[first % ENTRIES] == first + 1 ->
       atomic { claimed = !alone; alone = true };
       if
       :: claimed ->
          if
          :: consumer == first ->
             value = check[first % ENTRIES];
             atomic {
               assert(value == first + 1);
               assert(taken[first] == 0);
               taken[first] = 1;
               taken_count++
             };
             consumer = first + 1;
             publish(first + 1)
          :: else -> skip
          fi;
          alone = false
       :: else -> skip
       fi
    :: else -> skip
    fi
  od
}

init {
  byte i = 0;
  atomic {
    run Device();
    do
    :: i == POLLERS -> break
    :: else -> run Poller(); i++
    od
  }
}
