// The search around an engine: one work item takes seed after seed, walks each alignment of the draws through the words
// of its engine and leaves at the first draw with which the seed can no longer pass. What passes is a candidate; when in
// doubt (the words that were made ran out, a runtime draws again without end) a seed passes, since a judge follows.
//
// Before this stand the constants of the program (source.py) and the engine: WORD, Engine, engine_seed, engine_next.
// A table of picks holds what is wanted: first those of a round of outputs that are dropped, then those of the draws, in
// rows of COLUMNS numbers (table.py says what they are). A pick fits when its number v, less a target, is a multiple of
// a modulus and not too large: multiplied by the inverse of the modulus' odd part and turned right by the rest it is at
// most a bound (H. S. Warren, Hacker's Delight, 2nd ed., 10-17). For a span of values the modulus is 1.

#define LAST 1u
#define COUNTS 2u
#define FIRST 4u
#define TRIES 4096u

// How the draws may lie: numbers of rows, of blank ones and others; how many outputs may be missing before each; how
// many picks are looked at (at most BUFFER, where they are kept); the lowest and highest skip and gap.
typedef struct { uint blanks, rows, missing, kept, first_skip, last_skip, first_gap, last_gap; } Lie;

typedef struct {
  Engine engine;
  uint out;
#if HALVES
  uint left;
  uint upper;
#endif
} Words;

// The next word that outputs are made of.
static PICKED next_word(Words *words) {
#if HALVES
  if (words->left) {
    words->left = 0;
    return words->upper;
  }
  ulong word = engine_next(&words->engine);
  words->left = 1;
  words->upper = (uint)(word >> 32);
  return (uint)word;
#else
  return engine_next(&words->engine);
#endif
}

static int out_of_words(const Words *words) {
#ifdef ENGINE_OUT
  if (ENGINE_OUT(words->engine)) return 1;
#endif
  return words->out;
}

// v of the pick that a row describes, after as many tries as the runtime makes.
static V picked(Words *words, TABLE row) {
#if AGAIN
  for (uint tries = 0; tries < TRIES; tries++) {
#endif
#if MOST_WORDS == 1 && PARTS == 1
    V v = (V)(next_word(words) >> (PICKED)row[SHIFT]) & row[MASK];
#else
    V v = 0;
    for (uint k = 0; k < (uint)row[TAKES]; k++) {
      PICKED word = next_word(words);
      for (uint part = 0; part < PARTS; part++) {
        TABLE p = row + 4 * part;
        if ((uint)p[NUMBER] == k) v |= ((V)(word >> (PICKED)p[SHIFT]) & p[MASK]) << p[UP];
      }
    }
#endif
#if AGAIN
    if (v <= row[LIMIT] && ((v * row[FACTOR]) & row[LOW]) >= row[THRESHOLD]) return v;
    if (out_of_words(words)) break;
  }
  words->out = 1;
  return 0;
#else
    return v;
#endif
}

static int fits(V v, TABLE row) {
  V distance = v - row[TARGET];
  return v >= row[TARGET] && rotate(distance * row[INVERSE], row[TURN]) <= row[BOUND];
}

// The picks of one seed, one after the other: as they are made, or, where they are looked at more than once, from those
// that were kept. Which words a pick takes does not depend on what is wanted of it.
#if BUFFER
typedef struct { const V *values; uint at, made, out; } Stream;

static V next_pick(Stream *s, TABLE row) {
  if (s->at < s->made) return s->values[s->at++];
  s->out = 1;
  return 0;
}

static int out_of_picks(const Stream *s) { return s->out; }
#else
typedef Words Stream;

static V next_pick(Stream *s, TABLE row) { return picked(s, row); }

static int out_of_picks(const Stream *s) { return out_of_words(s); }
#endif

// Drop so many rounds of outputs that nobody wrote down.
static void drop(Stream *s, TABLE table, uint blanks, uint rounds) {
#if BUFFER
  s->at += rounds * blanks;
#else
  for (uint round = 0; round < rounds && !out_of_words(s); round++)
    for (uint r = 0; r < blanks; r++) picked(s, table + r * COLUMNS);
#endif
}

// Whether the draws pass when they begin here, with so many outputs dropped before each.
static int passes(Stream *s, TABLE table, const Lie *lie, uint gap) {
  uint fitting = 0;
  int fit = 1;
  for (uint r = lie->blanks; r < lie->blanks + lie->rows; r++) {
    TABLE row = table + r * COLUMNS;
    uint flags = (uint)row[FLAGS];
    if (flags & FIRST) {
#if GAPS
      drop(s, table, lie->blanks, gap);
#endif
      fit = 1;
    }
    V v = next_pick(s, row);
    if (out_of_picks(s)) return 1;
    fit &= fits(v, row);
    if (flags & LAST) {
      if (fit && (flags & COUNTS)) fitting++;
      if (fitting < (uint)row[LEAST]) return 0;
    }
  }
  return 1;
}

#if MISSING
// As passes(), with some outputs more dropped before each draw, another number each time. A bit of `there` for each
// number of outputs that may have been dropped so far: all of them go on side by side.
static int passes_somehow(const Stream *begin, TABLE table, const Lie *lie, uint skip, uint gap) {
  ulong there = 1;
  uint output = skip;
  for (uint r = lie->blanks; r < lie->blanks + lie->rows; r += lie->blanks, output += gap + 1) {
    ulong spread = there;
    for (uint more = 1; more <= lie->missing; more++) spread |= there << more;
    there = 0;
    for (uint d = 0; d < 64; d++) {
      if (!(spread >> d & 1)) continue;
      Stream s = *begin;
      s.at = (output + gap + d) * lie->blanks;
      int fit = 1;
      for (uint p = r; p < r + lie->blanks; p++) {
        TABLE row = table + p * COLUMNS;
        V v = next_pick(&s, row);
        fit &= fits(v, row);
      }
      if (out_of_picks(&s)) return 1;
      if (fit) there |= 1ul << d;
    }
    if (!there) return 0;
  }
  return 1;
}
#endif

static int survives(ulong low, ulong high, TABLE table, const Lie *lie) {
  Words words;
  engine_seed(&words.engine, low, high);
  words.out = 0;
#if HALVES
  words.left = 0;
  words.upper = 0;
#endif
#if BUFFER
  V values[BUFFER];
  Stream begin = {values, 0, 0, 0};
  for (uint r = 0; begin.made < lie->kept; r = r + 1 < lie->blanks ? r + 1 : 0) {
    V v = picked(&words, table + r * COLUMNS);
    if (out_of_words(&words)) break;
    values[begin.made++] = v;
  }
#else
  Stream begin = words;
#endif
#if MISSING
  for (uint skip = lie->first_skip; skip <= lie->last_skip; skip++)
    for (uint gap = lie->first_gap; gap <= lie->last_gap; gap++)
      if (passes_somehow(&begin, table, lie, skip, gap)) return 1;
  return 0;
#else
  drop(&begin, table, lie->blanks, lie->first_skip);
#if ALIGNMENTS
  for (uint skip = lie->first_skip;; skip++) {
    for (uint gap = lie->first_gap; gap <= lie->last_gap; gap++) {
      Stream s = begin;
      if (passes(&s, table, lie, gap)) return 1;
    }
    if (skip == lie->last_skip) return 0;
    drop(&begin, table, lie->blanks, 1);
  }
#else
  return passes(&begin, table, lie, lie->first_gap);
#endif
#endif
}

// Search `count` seeds from `low` on (`high` are their upper 64 bits, which do not change). `counts` and
// `range` are those of Lie, in order. hits[0] counts the candidates, the rest are the first `room` of them as distances
// from `low`.
__kernel void search(ulong low, ulong high, uint count, TABLE table, uint4 counts, uint4 range, __global uint *hits,
                     uint room) {
  Lie lie = {counts.x, counts.y, counts.z, counts.w, range.x, range.y, range.z, range.w};
  for (ulong i = get_global_id(0); i < count; i += get_global_size(0)) {
    if (survives(low + i, high, table, &lie)) {
      uint place = atomic_inc((volatile __global uint *)hits);
      if (place < room) hits[1 + place] = (uint)i;
    }
  }
}
