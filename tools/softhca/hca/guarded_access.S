// See guarded_access.h. Every function is a leaf without a frame that leaves the stack pointer alone.

.macro function name
  .globl \name
  .hidden \name
  .type \name, %function
  .balign 16
\name:
  .cfi_startproc
.endm

.macro end name
  .cfi_endproc
  .size \name, . - \name
.endm

.macro label name
  .globl \name
  .hidden \name
\name:
.endm

  .text
label softhca_guarded_begin

#if defined(__x86_64__)

// Loads acquire and stores release by themselves; locked instructions do both.

function softhca_guarded_copy
  cmpq $16, %rdx
  jb 4f
  movups -16(%rsi,%rdx), %xmm4  // the last 16 bytes; what comes before them is a multiple of 16, or laps over them
  leaq -16(%rdi,%rdx), %r8
  movq %rdx, %rcx
  shrq $6, %rcx
  jz 2f
1:
  movups (%rsi), %xmm0
  movups 16(%rsi), %xmm1
  movups 32(%rsi), %xmm2
  movups 48(%rsi), %xmm3
  movups %xmm0, (%rdi)
  movups %xmm1, 16(%rdi)
  movups %xmm2, 32(%rdi)
  movups %xmm3, 48(%rdi)
  addq $64, %rsi
  addq $64, %rdi
  decq %rcx
  jnz 1b
2:
  andl $48, %edx
  jz 3f
  movups (%rsi), %xmm0
  movups %xmm0, (%rdi)
  addq $16, %rsi
  addq $16, %rdi
  subl $16, %edx
  jmp 2b
3:
  movups %xmm4, (%r8)
  movl $1, %eax
  ret
4:
  testl %edx, %edx
  jz 5f
  movb (%rsi), %al
  movb %al, (%rdi)
  incq %rsi
  incq %rdi
  decl %edx
  jmp 4b
5:
  movl $1, %eax
  ret
end softhca_guarded_copy

function softhca_guarded_load32
  movl (%rdi), %eax
  movl %eax, (%rsi)
  movl $1, %eax
  ret
end softhca_guarded_load32

function softhca_guarded_store8
  movb %sil, (%rdi)
  movl $1, %eax
  ret
end softhca_guarded_store8

function softhca_guarded_fetch_add
  lock xaddq %rsi, (%rdi)
  movq %rsi, (%rdx)
  movl $1, %eax
  ret
end softhca_guarded_fetch_add

function softhca_guarded_compare_swap
  movq %rsi, %rax
  lock cmpxchgq %rdx, (%rdi)
  movq %rax, (%rcx)
  movl $1, %eax
  ret
end softhca_guarded_compare_swap

label softhca_guarded_end

function softhca_guarded_failed
  xorl %eax, %eax
  ret
end softhca_guarded_failed

#elif defined(__aarch64__)

function softhca_guarded_copy
1:
  subs x2, x2, #8
  b.lo 2f
  ldr x3, [x1], #8
  str x3, [x0], #8
  b 1b
2:
  adds x2, x2, #8
  b.eq 4f
3:
  ldrb w3, [x1], #1
  strb w3, [x0], #1
  subs x2, x2, #1
  b.ne 3b
4:
  mov w0, #1
  ret
end softhca_guarded_copy

function softhca_guarded_load32
  ldar w2, [x0]
  str w2, [x1]
  mov w0, #1
  ret
end softhca_guarded_load32

function softhca_guarded_store8
  stlrb w1, [x0]
  mov w0, #1
  ret
end softhca_guarded_store8

function softhca_guarded_fetch_add
1:
  ldaxr x3, [x0]
  add x4, x3, x1
  stlxr w5, x4, [x0]
  cbnz w5, 1b
  str x3, [x2]
  mov w0, #1
  ret
end softhca_guarded_fetch_add

function softhca_guarded_compare_swap
1:
  ldaxr x4, [x0]
  cmp x4, x1
  b.ne 2f
  stlxr w5, x2, [x0]
  cbnz w5, 1b
  b 3f
2:
  clrex
3:
  str x4, [x3]
  mov w0, #1
  ret
end softhca_guarded_compare_swap

label softhca_guarded_end

function softhca_guarded_failed
  mov w0, #0
  ret
end softhca_guarded_failed

#else
#error "guarded accesses are written for x86-64 and aarch64"
#endif

  .section .note.GNU-stack, "", %progbits
