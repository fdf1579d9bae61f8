# Appends to all strings in turn, so that all grow at the same time.
my @s = ("") x 200000;
for my $round (1 .. 12) {
    $_ .= "word$round " for @s;
}
my $n = 0;
$n += length for @s;
print "$n\n";
