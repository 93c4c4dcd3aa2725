// Loads the programs of an object whose names begin with argv[2], attaches them, says
// "ready", and leaves when its standard input ends.
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <bpf/libbpf.h>

static int quiet(enum libbpf_print_level level, const char *format, va_list arguments)
{
	return level == LIBBPF_WARN ? vfprintf(stderr, format, arguments) : 0;
}

int main(int argc, char **argv)
{
	struct bpf_object *object;
	struct bpf_program *program;
	char byte;

	if (argc != 3)
		return 2;
	libbpf_set_print(quiet);
	object = bpf_object__open_file(argv[1], NULL);
	if (!object)
		return 2;
	bpf_object__for_each_program(program, object) {
		const char *name = bpf_program__name(program);
		size_t length = strlen(argv[2]);
		int wanted = !strncmp(name, argv[2], length) && (!name[length] || !strcmp(name + length, "_end"));
		bpf_program__set_autoload(program, wanted);
	}
	if (bpf_object__load(object))
		return 2;
	bpf_object__for_each_program(program, object)
		if (bpf_program__autoload(program) && !bpf_program__attach(program))
			return 2;
	puts("ready");
	fflush(stdout);
	while (read(0, &byte, 1) > 0)
		;
	return 0;
}
