import java.util.Random;
import java.util.Scanner;

/** Reads lines "SEED SKIP COUNT int" or "SEED SKIP COUNT bound N" and writes the outputs of Random, a line each. */
public class Record {
    public static void main(String[] arguments) {
        if (arguments.length > 0 && arguments[0].equals("--version")) {
            System.out.println("Java " + System.getProperty("java.version"));
            return;
        }
        Scanner lines = new Scanner(System.in);
        while (lines.hasNextLine()) {
            System.out.println(draws(lines.nextLine().trim().split(" ")));
        }
    }

    private static String draws(String[] job) {
        Random random = new Random(Long.parseLong(job[0]));
        int skip = Integer.parseInt(job[1]);
        int count = Integer.parseInt(job[2]);
        StringBuilder line = new StringBuilder();
        for (int i = 0; i < skip + count; i++) {
            int draw = job[3].equals("int") ? random.nextInt() : random.nextInt(Integer.parseInt(job[4]));
            if (i >= skip) {
                line.append(i > skip ? " " : "").append(draw);
            }
        }
        return line.toString();
    }
}
