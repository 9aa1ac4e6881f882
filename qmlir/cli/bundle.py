"""Writes the files of `qmlir compile`: code, weights, and a C header that declares the network's function."""

import re
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from qmlir.cli.runs_here import runs_here
from qmlir.cli.streams import stream_functions
from qmlir.dialects.loops import CACHE_LINE
from qmlir.errors import UnsupportedError
from qmlir.ir.native import PROTOTYPE
from qmlir.ir.signature import Batch, Signature, TensorSpec, batch_symbol
from qmlir.running.files import write_together

if TYPE_CHECKING:
    from qmlir.backends.cpu.jit import Executable

# ---------------------------------------------------------------------------------------------------------------
# Names that a compiled network must not have in a C or C++ program, because the languages or the C library use them.
#
# For example, an object file that defines `memset` silently replaces libc's `memset` in every program it is linked
# into.


KEYWORDS = frozenset(
    """
    alignas alignof and and_eq asm auto bitand bitor bool break case catch char char16_t char32_t char8_t class
    co_await co_return co_yield compl concept const const_cast consteval constexpr constinit continue decltype
    default delete do double dynamic_cast else enum explicit export extern false final float for fortran friend goto
    if import inline int long module mutable namespace new noexcept not not_eq nullptr operator or or_eq override
    private protected public reflexpr register reinterpret_cast requires restrict return short signed sizeof static
    static_assert static_cast std struct switch synchronized template this thread_local throw true try typedef
    typeid typename typeof typeof_unqual union unsigned using virtual void volatile wchar_t while xor xor_eq
    """.split()
)
"""Keywords of C23 and C++26, and words that they treat as keywords in some places."""

MACROS = frozenset(
    """
    linux unix alloca assert atomic_compare_exchange_strong atomic_compare_exchange_strong_explicit
    atomic_compare_exchange_weak atomic_compare_exchange_weak_explicit atomic_exchange atomic_exchange_explicit
    atomic_fetch_add atomic_fetch_add_explicit atomic_fetch_and atomic_fetch_and_explicit atomic_fetch_or
    atomic_fetch_or_explicit atomic_fetch_sub atomic_fetch_sub_explicit atomic_fetch_xor atomic_fetch_xor_explicit
    atomic_flag_clear atomic_flag_clear_explicit atomic_flag_test_and_set atomic_flag_test_and_set_explicit
    atomic_init atomic_is_lock_free atomic_load atomic_load_explicit atomic_signal_fence atomic_store
    atomic_store_explicit atomic_thread_fence basename be16toh be32toh be64toh complex d_fileno errno fpclassify
    h_addr h_errno htobe16 htobe32 htobe64 htole16 htole32 htole64 isascii_l isfinite isgreater isgreaterequal
    isless islessequal islessgreater isnormal isunordered kill_dependency le16toh le32toh le64toh math_errhandling
    msg_cbytes pthread_cleanup_pop pthread_cleanup_push s6_addr s6_addr16 s6_addr32 sa_handler sa_sigaction
    sched_priority si_addr si_addr_lsb si_arch si_band si_call_addr si_fd si_int si_lower si_overrun si_pid si_pkey
    si_ptr si_status si_stime si_syscall si_timerid si_uid si_upper si_utime si_value sigev_notify_attributes
    sigev_notify_function sigmask signbit sigsetjmp st_atime st_ctime st_mtime timeradd timerclear timercmp
    timerisset timersub toascii_l va_arg va_copy va_end va_start
    """.split()
)
"""Lower-case macros that compilers and the headers of C and POSIX define."""

FUNCTIONS = frozenset(
    """
    a64l abort abs accept access acct acos acosf acosh acoshf acoshl acosl adjtime aio_cancel aio_error aio_fsync
    aio_read aio_return aio_suspend aio_write alarm aligned_alloc alphasort arc4random arc4random_buf
    arc4random_uniform asctime asctime_r asin asinf asinh asinhf asinhl asinl atan atan2 atan2f atan2l atanf atanh
    atanhf atanhl atanl atof atoi atol atoll bcmp bcopy bind bindresvport brk bsearch btowc bzero c16rtomb c32rtomb
    cabs cabsf cabsl cacos cacosf cacosh cacoshf cacoshl cacosl call_once calloc carg cargf cargl casin casinf
    casinh casinhf casinhl casinl catan catanf catanh catanhf catanhl catanl catclose catgets catopen cbrt cbrtf
    cbrtl ccos ccosf ccosh ccoshf ccoshl ccosl ceil ceilf ceill cexp cexpf cexpl cfgetispeed cfgetospeed cfmakeraw
    cfsetispeed cfsetospeed cfsetspeed chdir chmod chown chroot cimag cimagf cimagl clearenv clearerr
    clearerr_unlocked clock clock_getcpuclockid clock_getres clock_gettime clock_nanosleep clock_settime clog clogf
    clogl close closedir closefrom closelog cnd_broadcast cnd_destroy cnd_init cnd_signal cnd_timedwait cnd_wait
    confstr conj conjf conjl connect copysign copysignf copysignl cos cosf cosh coshf coshl cosl cpow cpowf cpowl
    cproj cprojf cprojl creal crealf creall creat csin csinf csinh csinhf csinhl csinl csqrt csqrtf csqrtl ctan
    ctanf ctanh ctanhf ctanhl ctanl ctermid ctime ctime_r daemon daylight difftime dirfd dirname div dlclose dlerror
    dlopen dlsym dprintf drand48 drand48_r drem dremf dreml dup dup2 duplocale dysize ecvt ecvt_r endgrent
    endhostent endnetent endnetgrent endprotoent endpwent endrpcent endservent endusershell endutxent environ
    erand48 erand48_r erf erfc erfcf erfcl erff erfl err execl execle execlp execv execve execvp exit exp exp2 exp2f
    exp2l expf expl explicit_bzero expm1 expm1f expm1l fabs fabsf fabsl faccessat fchdir fchmod fchmodat fchown
    fchownat fclose fcntl fcvt fcvt_r fdatasync fdim fdimf fdiml fdopen fdopendir feclearexcept fegetenv
    fegetexceptflag fegetround feholdexcept feof feof_unlocked feraiseexcept ferror ferror_unlocked fesetenv
    fesetexceptflag fesetround fetestexcept feupdateenv fexecve fflush fflush_unlocked ffs ffsl ffsll fgetc
    fgetc_unlocked fgetgrent fgetgrent_r fgetpos fgetpwent fgetpwent_r fgets fgetwc fgetws fileno fileno_unlocked
    finite finitef finitel flock flockfile floor floorf floorl fma fmaf fmal fmax fmaxf fmaxl fmemopen fmin fminf
    fminl fmod fmodf fmodl fnmatch fopen fork fpathconf fprintf fputc fputc_unlocked fputs fputwc fputws fread
    fread_unlocked free freeaddrinfo freelocale freopen frexp frexpf frexpl fscanf fseek fseeko fsetpos fstat
    fstatat fstatvfs fsync ftell ftello ftok ftruncate ftrylockfile ftw funlockfile futimens futimes fwide fwprintf
    fwrite fwrite_unlocked fwscanf gai_strerror gamma gammaf gammal gcvt getaddrinfo getc getc_unlocked getchar
    getchar_unlocked getcwd getdate getdate_err getdelim getdirentries getdomainname getdtablesize getegid
    getentropy getenv geteuid getgid getgrent getgrgid getgrgid_r getgrnam getgrnam_r getgrouplist getgroups
    gethostbyaddr gethostbyaddr_r gethostbyname gethostbyname2 gethostbyname2_r gethostbyname_r gethostent
    gethostent_r gethostid gethostname getitimer getline getloadavg getlogin getlogin_r getnameinfo getnetbyaddr
    getnetbyaddr_r getnetbyname getnetbyname_r getnetent getnetent_r getnetgrent getnetgrent_r getopt getpagesize
    getpass getpeername getpgid getpgrp getpid getppid getpriority getprotobyname getprotobyname_r getprotobynumber
    getprotobynumber_r getprotoent getprotoent_r getpwent getpwent_r getpwnam getpwnam_r getpwuid getpwuid_r
    getrlimit getrpcbyname getrpcbyname_r getrpcbynumber getrpcbynumber_r getrpcent getrpcent_r getrusage
    getservbyname getservbyname_r getservbyport getservbyport_r getservent getservent_r getsid getsockname
    getsockopt getsubopt gettimeofday getuid getusershell getutxent getutxid getutxline getw getwc getwchar getwd
    glob globfree gmtime gmtime_r grantpt gsignal hcreate hdestroy herror hsearch hstrerror htonl htons hypot hypotf
    hypotl iconv iconv_close iconv_open ilogb ilogbf ilogbl imaxabs imaxdiv in6addr_any in6addr_loopback index
    inet_addr inet_aton inet_lnaof inet_makeaddr inet_netof inet_network inet_nsap_addr inet_nsap_ntoa inet_ntoa
    inet_ntop inet_pton initgroups initstate initstate_r innetgr insque ioctl iruserok iruserok_af isalnum isalnum_l
    isalpha isalpha_l isascii isatty isblank isblank_l iscntrl iscntrl_l isdigit isdigit_l isfdtype isgraph
    isgraph_l isinf isinff isinfl islower islower_l isnan isnanf isnanl isprint isprint_l ispunct ispunct_l isspace
    isspace_l isupper isupper_l iswalnum iswalnum_l iswalpha iswalpha_l iswblank iswblank_l iswcntrl iswcntrl_l
    iswctype iswctype_l iswdigit iswdigit_l iswgraph iswgraph_l iswlower iswlower_l iswprint iswprint_l iswpunct
    iswpunct_l iswspace iswspace_l iswupper iswupper_l iswxdigit iswxdigit_l isxdigit isxdigit_l j0 j0f j0l j1 j1f
    j1l jn jnf jnl jrand48 jrand48_r kill killpg l64a labs lchmod lchown lcong48 lcong48_r ldexp ldexpf ldexpl ldiv
    lfind lgamma lgamma_r lgammaf lgammaf_r lgammal lgammal_r link linkat lio_listio listen llabs lldiv llrint
    llrintf llrintl llround llroundf llroundl localeconv localtime localtime_r lockf log log10 log10f log10l log1p
    log1pf log1pl log2 log2f log2l logb logbf logbl logf logl longjmp lrand48 lrand48_r lrint lrintf lrintl lround
    lroundf lroundl lsearch lseek lstat lutimes madvise main malloc mblen mbrlen mbrtoc16 mbrtoc32 mbrtowc mbsinit
    mbsnrtowcs mbsrtowcs mbstowcs mbtowc memccpy memchr memcmp memcpy memmove memset mincore mkdir mkdirat mkdtemp
    mkfifo mkfifoat mknod mknodat mkstemp mkstemps mktemp mktime mlock mlockall mmap modf modff modfl mprotect
    mq_close mq_getattr mq_notify mq_open mq_receive mq_send mq_setattr mq_timedreceive mq_timedsend mq_unlink
    mrand48 mrand48_r msgctl msgget msgrcv msgsnd msync mtx_destroy mtx_init mtx_lock mtx_timedlock mtx_trylock
    mtx_unlock munlock munlockall munmap nan nanf nanl nanosleep nearbyint nearbyintf nearbyintl newlocale nextafter
    nextafterf nextafterl nexttoward nexttowardf nexttowardl nftw nice nl_langinfo nl_langinfo_l nrand48 nrand48_r
    ntohl ntohs on_exit open open_memstream open_wmemstream openat opendir openlog optarg opterr optind optopt
    pathconf pause pclose perror pipe poll popen posix_fadvise posix_fallocate posix_madvise posix_memalign
    posix_openpt posix_spawn posix_spawn_file_actions_addclose posix_spawn_file_actions_adddup2
    posix_spawn_file_actions_addopen posix_spawn_file_actions_destroy posix_spawn_file_actions_init
    posix_spawnattr_destroy posix_spawnattr_getflags posix_spawnattr_getpgroup posix_spawnattr_getschedparam
    posix_spawnattr_getschedpolicy posix_spawnattr_getsigdefault posix_spawnattr_getsigmask posix_spawnattr_init
    posix_spawnattr_setflags posix_spawnattr_setpgroup posix_spawnattr_setschedparam posix_spawnattr_setschedpolicy
    posix_spawnattr_setsigdefault posix_spawnattr_setsigmask posix_spawnp pow powf powl pread preadv printf profil
    pselect psiginfo psignal pthread_atfork pthread_attr_destroy pthread_attr_getdetachstate
    pthread_attr_getguardsize pthread_attr_getinheritsched pthread_attr_getschedparam pthread_attr_getschedpolicy
    pthread_attr_getscope pthread_attr_getstack pthread_attr_getstackaddr pthread_attr_getstacksize
    pthread_attr_init pthread_attr_setdetachstate pthread_attr_setguardsize pthread_attr_setinheritsched
    pthread_attr_setschedparam pthread_attr_setschedpolicy pthread_attr_setscope pthread_attr_setstack
    pthread_attr_setstackaddr pthread_attr_setstacksize pthread_barrier_destroy pthread_barrier_init
    pthread_barrier_wait pthread_barrierattr_destroy pthread_barrierattr_getpshared pthread_barrierattr_init
    pthread_barrierattr_setpshared pthread_cancel pthread_cond_broadcast pthread_cond_destroy pthread_cond_init
    pthread_cond_signal pthread_cond_timedwait pthread_cond_wait pthread_condattr_destroy pthread_condattr_getclock
    pthread_condattr_getpshared pthread_condattr_init pthread_condattr_setclock pthread_condattr_setpshared
    pthread_create pthread_detach pthread_equal pthread_exit pthread_getconcurrency pthread_getcpuclockid
    pthread_getschedparam pthread_getspecific pthread_join pthread_key_create pthread_key_delete pthread_kill
    pthread_mutex_consistent pthread_mutex_destroy pthread_mutex_getprioceiling pthread_mutex_init
    pthread_mutex_lock pthread_mutex_setprioceiling pthread_mutex_timedlock pthread_mutex_trylock
    pthread_mutex_unlock pthread_mutexattr_destroy pthread_mutexattr_getprioceiling pthread_mutexattr_getprotocol
    pthread_mutexattr_getpshared pthread_mutexattr_getrobust pthread_mutexattr_gettype pthread_mutexattr_init
    pthread_mutexattr_setprioceiling pthread_mutexattr_setprotocol pthread_mutexattr_setpshared
    pthread_mutexattr_setrobust pthread_mutexattr_settype pthread_once pthread_rwlock_destroy pthread_rwlock_init
    pthread_rwlock_rdlock pthread_rwlock_timedrdlock pthread_rwlock_timedwrlock pthread_rwlock_tryrdlock
    pthread_rwlock_trywrlock pthread_rwlock_unlock pthread_rwlock_wrlock pthread_rwlockattr_destroy
    pthread_rwlockattr_getkind_np pthread_rwlockattr_getpshared pthread_rwlockattr_init
    pthread_rwlockattr_setkind_np pthread_rwlockattr_setpshared pthread_self pthread_setcancelstate
    pthread_setcanceltype pthread_setconcurrency pthread_setschedparam pthread_setschedprio pthread_setspecific
    pthread_sigmask pthread_spin_destroy pthread_spin_init pthread_spin_lock pthread_spin_trylock
    pthread_spin_unlock pthread_testcancel ptsname putc putc_unlocked putchar putchar_unlocked putenv putpwent puts
    pututxline putw putwc putwchar pwrite pwritev qecvt qecvt_r qfcvt qfcvt_r qgcvt qsort quick_exit raise rand
    rand_r random random_r rcmd rcmd_af re_syntax_options read readdir readdir_r readlink readlinkat readv realloc
    reallocarray realpath recv recvfrom recvmsg regcomp regerror regexec regfree remainder remainderf remainderl
    remove remque remquo remquof remquol rename renameat revoke rewind rewinddir rexec rexec_af rindex rint rintf
    rintl rmdir round roundf roundl rpmatch rresvport rresvport_af ruserok ruserok_af sbrk scalb scalbf scalbl
    scalbln scalblnf scalblnl scalbn scalbnf scalbnl scandir scanf sched_get_priority_max sched_get_priority_min
    sched_getparam sched_getscheduler sched_rr_get_interval sched_setparam sched_setscheduler sched_yield seed48
    seed48_r seekdir select sem_close sem_destroy sem_getvalue sem_init sem_open sem_post sem_timedwait sem_trywait
    sem_unlink sem_wait semctl semget semop send sendmsg sendto setbuf setbuffer setdomainname setegid setenv
    seteuid setgid setgrent setgroups sethostent sethostid sethostname setitimer setjmp setlinebuf setlocale
    setlogin setlogmask setnetent setnetgrent setpgid setpgrp setpriority setprotoent setpwent setregid setreuid
    setrlimit setrpcent setservent setsid setsockopt setstate setstate_r settimeofday setuid setusershell setutxent
    setvbuf shm_open shm_unlink shmat shmctl shmdt shmget shutdown sigaction sigaddset sigaltstack sigblock
    sigdelset sigemptyset sigfillset siggetmask sighold sigignore siginterrupt sigismember siglongjmp signal signgam
    significand significandf significandl sigpause sigpending sigprocmask sigqueue sigrelse sigreturn sigset
    sigsetmask sigstack sigsuspend sigtimedwait sigwait sigwaitinfo sin sinf sinh sinhf sinhl sinl sleep snprintf
    sockatmark socket socketpair sprintf sqrt sqrtf sqrtl srand srand48 srand48_r srandom srandom_r sscanf ssignal
    stat statvfs stderr stdin stdout stpcpy stpncpy strcasecmp strcasecmp_l strcat strchr strcmp strcoll strcoll_l
    strcpy strcspn strdup strerror strerror_l strerror_r strfmon strfmon_l strftime strftime_l strlen strncasecmp
    strncasecmp_l strncat strncmp strncpy strndup strnlen strpbrk strptime strrchr strsep strsignal strspn strstr
    strtod strtof strtoimax strtok strtok_r strtol strtold strtoll strtoq strtoul strtoull strtoumax strtouq strxfrm
    strxfrm_l swab swprintf swscanf symlink symlinkat sync syscall sysconf syslog system sysv_signal tan tanf tanh
    tanhf tanhl tanl tcdrain tcflow tcflush tcgetattr tcgetpgrp tcgetsid tcsendbreak tcsetattr tcsetpgrp tdelete
    telldir tempnam tfind tgamma tgammaf tgammal thrd_create thrd_current thrd_detach thrd_equal thrd_exit thrd_join
    thrd_sleep thrd_yield time timegm timelocal timer_create timer_delete timer_getoverrun timer_gettime
    timer_settime times timespec_get timezone tmpfile tmpnam tmpnam_r toascii tolower tolower_l toupper toupper_l
    towctrans towctrans_l towlower towlower_l towupper towupper_l trunc truncate truncf truncl tsearch tss_create
    tss_delete tss_get tss_set ttyname ttyname_r ttyslot twalk tzname tzset ualarm ulimit umask uname ungetc ungetwc
    unlink unlinkat unlockpt unsetenv uselocale usleep utime utimensat utimes valloc vdprintf vfork vfprintf vfscanf
    vfwprintf vfwscanf vhangup vprintf vscanf vsnprintf vsprintf vsscanf vswprintf vswscanf vsyslog vwprintf vwscanf
    wait wait3 wait4 waitid waitpid wcpcpy wcpncpy wcrtomb wcscasecmp wcscasecmp_l wcscat wcschr wcscmp wcscoll
    wcscoll_l wcscpy wcscspn wcsdup wcsftime wcslen wcsncasecmp wcsncasecmp_l wcsncat wcsncmp wcsncpy wcsnlen
    wcsnrtombs wcspbrk wcsrchr wcsrtombs wcsspn wcsstr wcstod wcstof wcstoimax wcstok wcstol wcstold wcstoll
    wcstombs wcstoul wcstoull wcstoumax wcswcs wcswidth wcsxfrm wcsxfrm_l wctob wctomb wctrans wctrans_l wctype
    wctype_l wcwidth wmemchr wmemcmp wmemcpy wmemmove wmemset wordexp wordfree wprintf write writev wscanf y0 y0f
    y0l y1 y1f y1l yn ynf ynl
    """.split()
)
"""Functions and variables of C and of POSIX, and further ones that C libraries define."""


# ---------------------------------------------------------------------------------------------------------------
# The files


C_TYPES = {
    "float32": "float",
    "float64": "double",
    "bool": "unsigned char",
    **{f"int{n}": f"int{n}_t" for n in (8, 16, 32, 64)},
    **{f"uint{n}": f"uint{n}_t" for n in (8, 16, 32, 64)},
}


def write_bundle(executable: "Executable", path: Path, emit: str) -> list[Path]:
    """Writes `path` and, for an object file, its weights and its header beside it; returns the paths written.

    Raises:
        UnsupportedError: An object file would call an operator that the running program defines in Python.
    """
    match emit:
        case "llvm-ir":
            contents = {path: executable.llvm_ir.encode()}
        case "asm":
            contents = {path: executable.assembly().encode()}
        case _:
            if executable.in_python:
                need = "must be a function in C, because an object file cannot call Python"
                remedy = "define it by qmlir.register_op with library= and symbol=, or run the network in Python"
                raise UnsupportedError(need, remedy=remedy, where=executable.in_python[0])
            contents = {
                path.with_suffix(".weights.bin"): executable.weights.tobytes(),
                path.with_suffix(".h"): header(executable, path.stem).encode(),
                path: executable.object,
            }
    write_together({place: partial(_write, content) for place, content in contents.items()})
    return list(contents)


def _write(content: bytes, path: Path) -> None:
    path.write_bytes(content)


def c_identifier(name: str) -> str:
    """Returns a name as a C identifier: `mnist-8` → `mnist_8`."""
    word = re.sub(r"[^A-Za-z0-9_]", "_", name)
    return word if re.match(r"[A-Za-z]", word) else f"net_{word}"


def entry_name(stem: str) -> str:
    """Returns the function name of a network compiled to a file of that stem; never a name of C or its library.

    All names in capitals or with `_t` at the end count as names of the library.
    """
    name = c_identifier(stem)
    reserved = name in KEYWORDS | MACROS | FUNCTIONS or name.endswith("_t") or name.isupper()
    return f"{name}_net" if reserved else name


def comment(text: str) -> str:
    """Makes text safe for a C comment: no character can end the comment, join lines or start an escape."""
    return re.sub(r"[^A-Za-z0-9_ .,:;=+()\[\]<>@#$%&|~^!/-]", "_", text[:_LONGEST])


_LONGEST = 200
"""The most characters of a name that a comment shows."""


def header(executable: "Executable", stem: str) -> str:
    """Returns the C header of a compiled network: sizes, and the tensors and the prototype of each function."""
    prefix, sizes = c_identifier(stem).upper(), executable.sizes
    entries = executable.entries or {executable.entry: executable}
    signatures = {entry: each.signature for entry, each in entries.items()}
    name = executable.entry if len(signatures) == 1 else entry_name(stem)
    lines = [
        f"/* {name}: a compiled network. Weights and arena start on a multiple of {prefix}_ALIGNMENT bytes. */",
        *(_THREADS_NOTE if executable.uses_pool else ()),
        "#pragma once",
        "#include <stdint.h>",
        "",
        f"#define {prefix}_ALIGNMENT {CACHE_LINE}",
        f"#define {prefix}_WEIGHTS_SIZE {sizes.weights}  /* bytes of {comment(stem)}.weights.bin */",
        f"#define {prefix}_ARENA_SIZE {sizes.arena}  /* bytes of scratch memory; one arena for each call in flight */",
        *requirements(executable, prefix, name),
        "",
    ]
    for entry, signature in signatures.items():
        lines += [
            *_tensors(signature),
            *(_defined_elsewhere(executable.native_symbols) if entry == executable.entry else ()),
            "",
            "#ifdef __cplusplus",
            'extern "C"',
            "#endif",
            f"void {entry}(const uint8_t *weights, uint8_t *arena, const void *const *inputs, void *const *outputs);",
            "",
            *(_batch_function(signature.batch, prefix, entry) if signature.batch else ()),
        ]
    if any(signature.states for signature in signatures.values()):
        lines += stream_functions(signatures, prefix, name)
    return "\n".join(lines)


def _tensors(signature: Signature) -> list[str]:
    """Returns the lines that list the inputs and outputs of a function."""
    flat, lines = signature.flat(), list[str]()
    befores, afters = ({state.places[side] for state in signature.states} for side in (0, 1))
    for kind, specs, kept in (("inputs", flat.inputs, befores), ("outputs", flat.outputs, afters)):
        for i, spec in enumerate(specs):
            lines.append(f"/* {kind}[{i}]: {_declared(spec)}{', a state' if i in kept else ''} */")
    return lines


def _batch_function(batch: "Batch", prefix: str, name: str) -> list[str]:
    """Returns the lines that declare the function that computes several samples."""
    places = [f"inputs[{i}]" for i, batched in enumerate(batch.inputs) if batched]
    others = ["", " The samples share the other inputs."][not all(batch.inputs)]
    return [
        f"/* Computes 1 to {prefix}_BATCH samples, with the same bits as a call of {name} for each. The samples of",
        f"   {', '.join(places)} and of each output follow one another in memory.{others} */",
        f"#define {prefix}_BATCH {batch.most}",
        "#ifdef __cplusplus",
        'extern "C"',
        "#endif",
        f"void {batch_symbol(name)}(const uint8_t *weights, uint8_t *arena, const void *const *inputs,",
        "    void *const *outputs, int64_t samples);",
        "",
    ]


def requirements(executable: "Executable", prefix: str, name: str) -> list[str]:
    """Returns the lines that say which system the code is for, if not for this one, and the features it needs, if any.

    Those are features beyond what every processor of the architecture has. `prefix` is that of macros, and `name` that
    of the function which asks the processor.
    """
    from qmlir.backends.cpu import beyond_baseline

    needed, triple = beyond_baseline(executable.machine), executable.machine.triple
    system = (
        [f'#define {prefix}_TRIPLE "{triple}"  /* the architecture and the system of the code */'] if triple else []
    )
    if not needed:
        return system
    return [
        *system,
        f"/* The code needs a processor like {comment(executable.machine.cpu)}, with these features (LLVM's names). */",
        f'#define {prefix}_CPU_FEATURES "{",".join(needed)}"',
        *runs_here(executable.machine.architecture, needed, name),
    ]


_THREADS_NOTE = (
    "/* Its loops run in several threads: link with -pthread. They stay until the process ends, so a shared library",
    "   that holds this object must stay loaded, too (-z nodelete). */",
)


def _defined_elsewhere(symbols: Sequence[str]) -> list[str]:
    """The lines that declare the C functions which the network calls and the program defines."""
    if not symbols:
        return []
    note = "/* Operators of the network that the program defines; docs/extending.md says what the arguments are. */"
    opened, closed = ("#ifdef __cplusplus", 'extern "C" {', "#endif"), ("#ifdef __cplusplus", "}", "#endif")
    return ["", note, *opened, *map(PROTOTYPE.format, symbols), *closed]


def _declared(spec: TensorSpec) -> str:
    shape = "".join(f"[{n}]" for n in spec.shape)
    known = C_TYPES.get(spec.dtype.name)  # C lacks some types: then an integer of that size, and the type's name
    kind = known or f"{spec.dtype.name} in uint{8 * spec.dtype.itemsize}_t"
    real = ""
    if spec.quantization is not None:
        scale, zero_point = spec.quantization
        real = f" = {scale!r} * (integer - {zero_point})" if zero_point else f" = {scale!r} * integer"
    return f"{kind} {shape}  {comment(spec.name)}{real}"
