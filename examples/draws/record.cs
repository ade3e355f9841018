// Reads lines "SEED SKIP COUNT KIND [ARGUMENT ...]" and writes the outputs of System.Random, a line each.
using System;
using System.Collections.Generic;
using System.Globalization;

static class Record
{
    static string Draw(Random random, string kind, long a, long b)
    {
        switch (kind)
        {
            case "exact": return random.Next().ToString();
            case "below": return random.Next((int)a).ToString();
            case "range": return random.Next((int)a, (int)(b + 1)).ToString();
            case "double": return random.NextDouble().ToString("R", CultureInfo.InvariantCulture);
            case "mod": return (random.Next() % a).ToString();
            case "bytes":
                byte[] bytes = new byte[a];
                random.NextBytes(bytes);
                return "\"" + BitConverter.ToString(bytes).Replace("-", "").ToLower() + "\"";
        }
        throw new ArgumentException(kind);
    }

    static void Main(string[] arguments)
    {
        if (arguments.Length == 1 && arguments[0] == "--version")
        {
            Type mono = Type.GetType("Mono.Runtime");
            object name = mono == null ? null : mono.GetMethod("GetDisplayName",
                System.Reflection.BindingFlags.NonPublic | System.Reflection.BindingFlags.Static).Invoke(null, null);
            Console.WriteLine("Mono " + name);
            return;
        }
        string line;
        while ((line = Console.ReadLine()) != null)
        {
            string[] job = line.Split(' ');
            var random = new Random(int.Parse(job[0]));
            int skip = int.Parse(job[1]), count = int.Parse(job[2]);
            long a = job.Length > 4 ? long.Parse(job[4]) : 0, b = job.Length > 5 ? long.Parse(job[5]) : 0;
            var draws = new List<string>();
            for (int i = 0; i < skip + count; i++)
            {
                string draw = Draw(random, job[3], a, b);
                if (i >= skip) draws.Add(draw);
            }
            Console.WriteLine(string.Join(" ", draws));
        }
    }
}
