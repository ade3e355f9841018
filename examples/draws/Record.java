import java.util.ArrayList;
import java.util.Collections;
import java.util.HexFormat;
import java.util.List;
import java.util.Random;
import java.util.Scanner;
import java.util.SplittableRandom;
import java.util.random.RandomGenerator;

/**
 * Reads lines "SEED SKIP COUNT KIND [ARGUMENT]" and writes the outputs, a line each: of java.util.Random, or of the
 * generator that the argument names, splitmix64 or xoshiro256plusplus.
 */
class Record {
    public static void main(String[] arguments) {
        if (arguments.length == 1 && arguments[0].equals("--version")) {
            System.out.println("Java " + System.getProperty("java.version"));
            return;
        }
        Scanner jobs = new Scanner(System.in);
        while (jobs.hasNextLine()) {
            String[] job = jobs.nextLine().split(" ");
            RandomGenerator random = generator(arguments[0], Long.parseUnsignedLong(job[0].replace("-", ""))
                * (job[0].startsWith("-") ? -1 : 1));
            int skip = Integer.parseInt(job[1]), count = Integer.parseInt(job[2]);
            int n = job.length > 4 ? Integer.parseInt(job[4]) : 0;
            StringBuilder line = new StringBuilder();
            for (int i = 0; i < skip + count; i++) {
                String draw = draw(random, job[3], n);
                if (i >= skip)
                    line.append(i > skip ? " " : "").append(draw);
            }
            System.out.println(line);
        }
    }

    static RandomGenerator generator(String name, long seed) {
        SplittableRandom split = new SplittableRandom(seed);
        return switch (name) {
            case "splitmix64" -> split;
            case "xoshiro256plusplus" -> new jdk.random.Xoshiro256PlusPlus(
                split.nextLong(), split.nextLong(), split.nextLong(), split.nextLong());
            default -> new Random(seed);
        };
    }

    static String draw(RandomGenerator random, String kind, int n) {
        return switch (kind) {
            case "int" -> "" + random.nextInt();
            case "bound" -> "" + random.nextInt(n);
            case "long" -> "" + random.nextLong();
            case "exact" -> Long.toUnsignedString(random.nextLong());
            case "double" -> "" + random.nextDouble();
            case "float" -> random instanceof Random ? "" + (double) random.nextFloat() : "" + random.nextDouble();
            case "boolean" -> random.nextBoolean() ? "1" : "0";
            case "floor" -> "" + (int) (random.nextDouble() * n);
            case "bytes" -> {
                byte[] bytes = new byte[n];
                random.nextBytes(bytes);
                yield "\"" + HexFormat.of().formatHex(bytes) + "\"";
            }
            case "shuffle" -> {
                List<Integer> items = new ArrayList<>();
                for (int i = 0; i < n; i++)
                    items.add(i);
                Collections.shuffle(items, (Random) random);
                yield items.toString().replace(" ", "");
            }
            default -> throw new IllegalArgumentException(kind);
        };
    }
}
