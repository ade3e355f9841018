<?php
// Reads lines "SEED SKIP COUNT KIND [ARGUMENT ...]" and writes the outputs of mt_rand, a line each. The argument
// php5-mt_rand seeds with MT_RAND_PHP, which is the generator of PHP 5 and 7.0.
if (($argv[1] ?? '') === '--version') {
    echo 'PHP ', PHP_VERSION, "\n";
    exit;
}
$mode = ($argv[1] ?? '') === 'php5-mt_rand' ? MT_RAND_PHP : MT_RAND_MT19937;
function shuffled(int $n): string
{
    $items = range(0, $n - 1);
    shuffle($items);
    return json_encode($items);
}
while (($line = fgets(STDIN)) !== false) {
    $job = explode(' ', trim($line));
    [$seed, $skip, $count] = array_map('intval', $job);
    $a = (int) ($job[4] ?? 0);
    $b = (int) ($job[5] ?? 0);
    @mt_srand($seed, $mode);
    $draw = match ($job[3]) {
        'exact' => fn() => mt_rand(),
        'range' => fn() => mt_rand($a, $b),
        'shuffle' => fn() => shuffled($a),
        'rand:exact' => fn() => rand(),
        'rand:range' => fn() => rand($a, $b),
        'array_rand:range' => fn() => array_rand(range($a, $b)),
    };
    for ($i = 0; $i < $skip; $i++) {
        $draw();
    }
    $draws = [];
    for ($i = 0; $i < $count; $i++) {
        $draws[] = $draw();
    }
    echo implode(' ', $draws), "\n";
}
